#include "fovea/serve/http/http_server.h"

#include <gmock/gmock.h>

#include <string>

#include "fovea/core/error.h"
#include "tests/serve/http/echo_handler.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/temp_dir.h"

namespace fovea::serve {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

HttpServerOptions any_port() {
  HttpServerOptions options;
  options.port = 0;
  options.threads = 1;
  return options;
}

class HttpServerTest : public ::testing::Test {
 protected:
  EchoHandler handler_;
  HttpServerOptions options_ = any_port();
};

TEST_F(HttpServerTest, AnswersRequestsOfAConnectionOneAfterAnother) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  EXPECT_EQ(client.ask(get("/a")).body, "GET /a ");
  const auto response = client.ask(post("/b", "hello"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "POST /b hello");
  EXPECT_TRUE(response.has("Connection: keep-alive"));
  EXPECT_TRUE(response.has("Content-Type: text/plain"));
  EXPECT_TRUE(response.has("X-Content-Type-Options: nosniff"));
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(get("/slow/60") + post("/slow/20", "x") + get("/fast")));
  EXPECT_EQ(client.receive().body, "GET /slow/60 ");
  EXPECT_EQ(client.receive().body, "POST /slow/20 x");
  EXPECT_EQ(client.receive().body, "GET /fast ");
}

TEST_F(HttpServerTest, CarriesLargeBodiesBothWays) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  std::string body(3 << 20, 'x');
  for (size_t i = 0; i < body.size(); i += 1000) body[i] = static_cast<char>(i / 1000);
  EXPECT_EQ(client.ask(post("/a", body)).body, "POST /a " + body);
}

TEST_F(HttpServerTest, TellsWhoWaitsToContinue) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(
      "POST /a HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 100);
  EXPECT_EQ(client.ask("hi").body, "POST /a hi");
}

TEST_F(HttpServerTest, RefusesABodyBeforeItIsSent) {
  options_.limits.body_bytes = 1000;
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  const auto response = client.ask(
      "POST /a HTTP/1.1\r\nHost: t\r\nContent-Length: 2147483648\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, HasSubstr(R"({"error":"a body of more than 1000 bytes)"));
  EXPECT_TRUE(response.has("Connection: close"));
  EXPECT_EQ(handler_.num_requests, 0);
}

TEST_F(HttpServerTest, SaysWhyToAClientThatGoesOnSending) {
  options_.limits.body_bytes = 1000;
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  client.send(post("/a", std::string(1 << 20, 'x')));
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(HttpServerTest, LimitsBodiesTogether) {
  options_.limits.all_bodies_bytes = 1000;
  HttpServer server(options_, handler_);
  RawClient first(server.port()), second(server.port());
  ASSERT_TRUE(first.send(post("/slow/300", std::string(900, 'x'))));
  while (handler_.num_requests == 0) std::this_thread::sleep_for(milliseconds(1));
  const auto refused = second.ask(post("/a", std::string(900, 'x')));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("Retry-After: "));
  EXPECT_EQ(first.receive().status, 200);
  EXPECT_EQ(first.ask(post("/a", std::string(900, 'x'))).status, 200);  // it was given back
}

TEST_F(HttpServerTest, CutsOffSlowSenders) {
  options_.limits.header_time = milliseconds(80);
  options_.limits.body_time = milliseconds(80);
  HttpServer server(options_, handler_);
  RawClient silent(server.port()), head(server.port()), body(server.port());
  ASSERT_TRUE(head.send("GET / HTTP/1.1\r\nHo"));
  ASSERT_TRUE(body.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc"));
  EXPECT_EQ(head.receive().status, 408);
  EXPECT_EQ(body.receive().status, 408);
  EXPECT_TRUE(silent.is_closed());
}

// A byte now and then keeps no connection.
TEST_F(HttpServerTest, CountsTheWholeTimeOfARequest) {
  options_.limits.header_time = milliseconds(150);
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  const auto start = std::chrono::steady_clock::now();
  std::string request = "GET / HTTP/1.1\r\nX: ";
  bool is_open = true;
  while (is_open && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
    is_open = client.send(request.empty() ? "a" : std::exchange(request, {}));
    std::this_thread::sleep_for(milliseconds(20));
    char byte = 0;
    if (recv(client.descriptor(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0) break;
  }
  EXPECT_EQ(client.receive().status, 408);
}

TEST_F(HttpServerTest, ClosesIdleConnections) {
  options_.limits.idle_time = milliseconds(60);
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  EXPECT_EQ(client.ask(get("/a")).status, 200);
  EXPECT_TRUE(client.is_closed());
}

// An answer may take less time to be sent than there is for the next request.
TEST_F(HttpServerTest, ALongLimitAfterAShortOneIsKept) {
  options_.limits.body_time = milliseconds(20);
  options_.limits.idle_time = milliseconds(300);
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client.ask(get("/a")).status, 200);
    std::this_thread::sleep_for(milliseconds(60));
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(client.is_closed());
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(100));
}

TEST_F(HttpServerTest, LimitsConnections) {
  options_.limits.max_connections = 1;
  HttpServer server(options_, handler_);
  RawClient first(server.port());
  EXPECT_EQ(first.ask(get("/a")).status, 200);
  RawClient second(server.port());
  EXPECT_EQ(second.receive().status, 503);
  EXPECT_EQ(first.ask(get("/a")).status, 200);
}

TEST_F(HttpServerTest, AnswersMethods) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  ASSERT_TRUE(client.send("HEAD /a HTTP/1.1\r\nHost: t\r\n\r\n"));
  const auto head = client.receive(/*has_body=*/false);
  EXPECT_TRUE(head.has("Content-Length: 7"));
  const auto options = client.ask("OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(options.status, 204);
  EXPECT_TRUE(options.has("Allow: GET, HEAD, POST, OPTIONS"));
  EXPECT_EQ(client.ask("DELETE /a HTTP/1.1\r\nHost: t\r\n\r\n").status, 405);
}

TEST_F(HttpServerTest, NamesRequests) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  EXPECT_TRUE(client.ask(get("/a", "X-Request-Id: my-1\r\n")).has("X-Request-Id: my-1\r\n"));
  EXPECT_FALSE(client.ask(get("/a", "X-Request-Id: a b\r\n")).has("a b"));
}

TEST_F(HttpServerTest, TellsNothingOfAnExceptionWithin) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  const auto response = client.ask(get("/throws"));
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(client.ask(get("/a")).status, 200);
}

TEST_F(HttpServerTest, AnswersInTimeWhereTheHandlerDoesNot) {
  options_.limits.answer_time = milliseconds(50);
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  EXPECT_EQ(client.ask(get("/never")).status, 504);
  EXPECT_EQ(client.ask(get("/slow/100")).status, 504);
  EXPECT_EQ(client.ask(get("/a")).body, "GET /a ");  // not the late answer to the one before
  handler_.join();
  EXPECT_EQ(client.ask(get("/b")).body, "GET /b ");
}

TEST_F(HttpServerTest, WritesNoHeaderWithinAHeader) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  const auto response = client.ask(get("/broken"));
  EXPECT_FALSE(response.has("\r\nX-B:"));
  EXPECT_TRUE(response.has("X-A: a  X-B: b\r\n"));
}

TEST_F(HttpServerTest, RefusesPagesOfOtherSites) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  EXPECT_EQ(client.ask(post("/a", "", "Origin: http://evil.example\r\n")).status, 403);
  RawClient own(server.port());
  EXPECT_EQ(own.ask(post("/a", "", "Origin: http://test\r\n")).status, 200);
}

TEST_F(HttpServerTest, DrainsWithoutLoss) {
  options_.limits.linger_time = milliseconds(100);  // for clients that do not close
  HttpServer server(options_, handler_);
  RawClient busy(server.port()), idle(server.port());
  EXPECT_EQ(idle.ask(get("/a")).status, 200);
  ASSERT_TRUE(busy.send(get("/slow/150") + get("/b")));
  while (handler_.num_requests < 2) std::this_thread::sleep_for(milliseconds(1));
  std::thread reader([&] {
    EXPECT_EQ(busy.receive().body, "GET /slow/150 ");
    const auto last = busy.receive();  // was there when the server was told to stop
    EXPECT_EQ(last.body, "GET /b ");
    EXPECT_TRUE(last.has("Connection: close"));
    EXPECT_TRUE(busy.is_closed());
    EXPECT_TRUE(idle.is_closed());
  });
  const auto port = server.port();
  EXPECT_TRUE(server.drain(std::chrono::seconds(10)));
  reader.join();
  EXPECT_EQ(server.num_connections(), 0);
  EXPECT_THROW(RawClient{port}, std::runtime_error);
}

TEST_F(HttpServerTest, EndsWithRequestsThatNobodyAnswers) {
  auto server = std::make_unique<HttpServer>(options_, handler_);
  RawClient waiting(server->port()), slow(server->port());
  ASSERT_TRUE(waiting.send(get("/never")));
  ASSERT_TRUE(slow.send(get("/slow/200")));
  while (handler_.num_requests < 2) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(server->drain(milliseconds(10)));
  server.reset();  // before the handler has answered
  EXPECT_EQ(waiting.receive().status, 0);
}

std::string config_error(const HttpServerOptions& options) {
  EchoHandler handler;
  try {
    const HttpServer server(options, handler);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST_F(HttpServerTest, SaysThatAPortIsInUse) {
  HttpServer server(options_, handler_);
  auto second = any_port();
  second.port = server.port();
  EXPECT_THAT(config_error(second), HasSubstr("is in use; expected a free one"));
}

TEST_F(HttpServerTest, WantsAKeyWhereOthersReachIt) {
  const support::TempDir folder;
  options_.host = "0.0.0.0";
  EXPECT_THAT(config_error(options_), HasSubstr("expected --bearer-file FILE"));
  options_.bearer_file = folder.write("short", std::string("abc\n"));
  EXPECT_THAT(config_error(options_), HasSubstr("a key of 3 characters"));
  options_.bearer_file = folder.write("empty", std::string("\n\n"));
  EXPECT_THAT(config_error(options_), HasSubstr("no key"));
  options_.bearer_file.clear();
  options_.host = "no.such.host.invalid";
  EXPECT_THAT(config_error(options_), HasSubstr("expected an address of this machine"));
}

TEST_F(HttpServerTest, AnswersWhoHasAKey) {
  const support::TempDir folder;
  const std::string old_key(32, 'a'), new_key(40, 'b');
  options_.host = "0.0.0.0";
  options_.bearer_file = folder.write("keys", old_key + "\n" + new_key + "\n");
  options_.open_paths = {"/health"};
  HttpServer server(options_, handler_);
  const auto status = [&](const std::string& path, const std::string& more) {
    return RawClient(server.port()).ask(get(path, more)).status;
  };
  EXPECT_EQ(status("/a", ""), 401);
  EXPECT_EQ(status("/health", ""), 200);
  EXPECT_EQ(status("/a", "Authorization: Bearer " + old_key + "\r\n"), 200);
  EXPECT_EQ(status("/a", "Authorization: bearer " + new_key + "\r\n"), 200);
  EXPECT_EQ(status("/a", "Authorization: Bearer " + old_key + "a\r\n"), 401);
  EXPECT_EQ(status("/a", "Authorization: Bearer " + old_key.substr(1) + "\r\n"), 401);
  EXPECT_EQ(status("/a", "Authorization: Basic " + old_key + "\r\n"), 401);
  EXPECT_TRUE(RawClient(server.port()).ask(get("/a")).has("WWW-Authenticate: Bearer"));
}

}  // namespace
}  // namespace fovea::serve
