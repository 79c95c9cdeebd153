#include "fovea/net/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/net/scripted_server.h"
#include "tests/support/temp_dir.h"

namespace fovea::net {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

template <class Call>
HttpError error_of(const Call& call) {
  try {
    call();
  } catch (const HttpError& error) {
    return error;
  }
  throw std::runtime_error("expected an HttpError");
}

ScriptedServer::Answer always(std::string answer) {
  return [answer = std::move(answer)](const std::string&) { return answer; };
}

TEST(HttpTest, SendsWhatItIsGiven) {
  ScriptedServer server(always(whole_answer("201 Created", "X-A: b\r\nX-A: c\r\n", "made")));
  HttpClient client;
  const auto reply = client.perform({.method = "POST",
                                     .url = server.url() + "/a?b=c",
                                     .headers = {{"Content-Type", "application/json"}, {"X-E", ""}},
                                     .body = "{\"a\": 1}"});
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.body, "made");
  EXPECT_EQ(reply.header("x-a"), "b");
  EXPECT_EQ(reply.header("x-b"), "");
  EXPECT_EQ(reply.redirect_url, "");
  const auto request = server.requests().at(0);
  EXPECT_THAT(request, AllOf(StartsWith("POST /a?b=c HTTP/1.1\r\n"),
                             HasSubstr("Content-Type: application/json\r\n"), HasSubstr("X-E:"),
                             HasSubstr("\r\n\r\n{\"a\": 1}"), Not(HasSubstr("Expect"))));
}

TEST(HttpTest, MethodsHaveBodiesOrNone) {
  ScriptedServer server(always(whole_answer("200 OK", "", "")));
  HttpClient client;
  client.perform({.url = server.url()});
  client.perform({.method = "PATCH", .url = server.url(), .body = "x"});
  client.perform({.method = "DELETE", .url = server.url()});
  client.perform({.method = "HEAD", .url = server.url()});
  EXPECT_THAT(server.requests(),
              ElementsAre(AllOf(StartsWith("GET / "), Not(HasSubstr("Content-"))),
                          AllOf(StartsWith("PATCH / "), HasSubstr("Content-Length: 1\r\n"),
                                Not(HasSubstr("Content-Type"))),
                          StartsWith("DELETE / "), StartsWith("HEAD / ")));
}

TEST(HttpTest, AFileIsABody) {
  const support::TempDir folder;
  const std::string content(300000, 'f');
  const auto path = folder.write("weights", content);
  ScriptedServer server(always(whole_answer("200 OK", "", "taken")));
  HttpClient client;
  const auto reply = client.perform({.method = "PUT", .url = server.url(), .file = path});
  EXPECT_EQ(reply.body, "taken");
  EXPECT_THAT(server.requests().at(0),
              AllOf(StartsWith("PUT / "), HasSubstr("Content-Length: 300000\r\n")));
  EXPECT_TRUE(server.requests().at(0).ends_with("\r\n\r\n" + content));
  EXPECT_THROW(client.perform({.method = "PUT", .url = server.url(), .file = path + ".away"}),
               DataError);
}

TEST(HttpTest, SaysWhereARedirectLeadsAndDoesNotGo) {
  ScriptedServer server(always(whole_answer("302 Found", "Location: ../b?c\r\n", "elsewhere")));
  HttpClient client;
  const auto reply = client.perform({.url = server.url() + "/x/y/a"});
  EXPECT_EQ(reply.status, 302);
  EXPECT_EQ(reply.redirect_url, server.url() + "/x/b?c");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST(HttpTest, BytesComeWithTheirHeadUntilTheyAreEnough) {
  ScriptedServer server(
      always(whole_answer("206 Partial Content", "X-A: b\r\n", std::string(1 << 20, 'a'))));
  HttpClient client;
  size_t taken = 0;
  const auto reply =
      client.download({.url = server.url()}, [&](const HttpReply& head, std::string_view bytes) {
        EXPECT_EQ(head.status, 206);
        EXPECT_EQ(head.header("x-a"), "b");
        taken += bytes.size();
        return taken < 1000;
      });
  EXPECT_EQ(reply.status, 206);
  EXPECT_GE(taken, 1000u);
  EXPECT_LT(taken, 1u << 20);
  EXPECT_THROW(client.download({.url = server.url()},
                               [](const HttpReply&, std::string_view) -> bool {
                                 throw DataError("the disk is full");
                               }),
               DataError);
}

TEST(HttpTest, AnAnswerThatEndsTooEarlyIsNone) {
  ScriptedServer server(always("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive!"));
  HttpClient client;
  const auto error = error_of([&] { client.perform({.url = server.url()}); });
  EXPECT_EQ(error.kind(), HttpError::Kind::kNoAnswer);
  EXPECT_TRUE(error.is_sent());
  EXPECT_THAT(error.what(), HasSubstr("5 bytes remaining"));
}

TEST(HttpTest, NobodyListens) {
  std::string url;
  {
    ScriptedServer server(always(""));
    url = server.url();
  }
  HttpClient client;
  const auto error = error_of([&] { client.perform({.url = url}); });
  EXPECT_EQ(error.kind(), HttpError::Kind::kNoAnswer);
  EXPECT_FALSE(error.is_sent());
  EXPECT_FALSE(error_of([&] { client.perform({.url = "file:///etc/passwd"}); }).is_sent());
}

TEST(HttpTest, LimitsHold) {
  ScriptedServer server([](const std::string& request) {
    if (request.starts_with("GET /large"))
      return whole_answer("200 OK", "", std::string(2000, 'a'));
    if (request.starts_with("GET /headers")) {
      std::string headers;
      for (int i = 0; i < 90; ++i) headers += "a: " + std::string(3000, 'b') + "\r\n";
      return whole_answer("200 OK", headers, "");
    }
    std::this_thread::sleep_for(milliseconds(400));
    return whole_answer("200 OK", "", "late");
  });
  HttpClient client;
  EXPECT_EQ(error_of([&] {
              client.perform({.url = server.url() + "/large", .max_body_bytes = 1000});
            }).kind(),
            HttpError::Kind::kTooLarge);
  EXPECT_EQ(error_of([&] { client.perform({.url = server.url() + "/headers"}); }).kind(),
            HttpError::Kind::kTooLarge);
  const auto late = error_of(
      [&] { client.perform({.url = server.url() + "/late", .timeout = milliseconds(50)}); });
  EXPECT_EQ(late.kind(), HttpError::Kind::kNoAnswer);
  EXPECT_THAT(late.what(), HasSubstr("no answer within 0.1 s"));
  EXPECT_EQ(client.perform({.url = server.url() + "/late", .timeout = milliseconds(0)}).body,
            "late");
  EXPECT_THROW(client.perform({.url = server.url(), .headers = {{"a", "b\r\nc: d"}}}), Error);
}

TEST(HttpTest, ProxiesOfTheEnvironmentAreAskedWhereThatIsWanted) {
  ScriptedServer proxy(always(whole_answer("200 OK", "", "by proxy")));
  setenv("http_proxy", proxy.url().c_str(), 1);
  HttpClient client;
  EXPECT_EQ(client.perform({.url = "http://fovea.invalid/a", .uses_environment_proxy = true}).body,
            "by proxy");
  EXPECT_FALSE(error_of([&] { client.perform({.url = "http://fovea.invalid/a"}); }).is_sent());
  unsetenv("http_proxy");
  EXPECT_THAT(proxy.requests(), ElementsAre(StartsWith("GET http://fovea.invalid/a ")));
}

TEST(HttpTest, AnotherThreadMayInterrupt) {
  ScriptedServer server([](const std::string&) {
    std::this_thread::sleep_for(milliseconds(200));
    return std::string();
  });
  HttpClient client;
  std::thread other([&] {
    while (server.requests().empty()) std::this_thread::sleep_for(milliseconds(1));
    client.interrupt();
  });
  EXPECT_EQ(error_of([&] { client.perform({.url = server.url()}); }).kind(),
            HttpError::Kind::kInterrupted);
  other.join();
}

}  // namespace
}  // namespace fovea::net
