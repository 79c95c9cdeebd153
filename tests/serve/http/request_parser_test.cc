#include "fovea/serve/http/request_parser.h"

#include <gmock/gmock.h>

#include <string>

#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

HttpLimits small_limits() {
  HttpLimits limits;
  limits.header_bytes = 500;
  limits.body_bytes = 100;
  return limits;
}

// The request out of `bytes` in pieces of `size`, and what is left.
HttpRequest parsed(const std::string& bytes, size_t size, std::string* rest = nullptr) {
  RequestParser parser(small_limits());
  std::string pending;
  for (size_t i = 0; i < bytes.size(); i += size) {
    pending += bytes.substr(i, size);
    pending.erase(0, parser.feed(pending));
  }
  EXPECT_EQ(parser.state(), RequestParser::State::kDone);
  if (rest != nullptr) *rest = pending;
  return parser.take();
}

int status_of(const std::string& bytes) {
  RequestParser parser(small_limits());
  try {
    parser.feed(bytes);
    parser.take();
  } catch (const StatusError& error) {
    return error.status();
  }
  return 200;
}

const std::string kHost = "Host: a\r\n";

TEST(RequestParserTest, ReadsARequestHoweverItIsCut) {
  const std::string bytes =
      "POST /a%20b?c=d HTTP/1.1\r\nHOST: x\r\nX-Y:  z \r\nContent-Length: 5\r\n\r\nhello";
  for (const size_t size : {1, 2, 3, 7, 1000}) {
    std::string rest;
    const auto request = parsed(bytes + "GET", size, &rest);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/a b");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(*find_header(request.headers, "x-y"), "z");
    EXPECT_EQ(rest, "GET") << size;
  }
}

TEST(RequestParserTest, ReadsChunksAndIgnoresTheirExtensionsAndTrailers) {
  const std::string bytes = "POST / HTTP/1.1\r\n" + kHost +
                            "Transfer-Encoding: chunked\r\n\r\n"
                            "3;a=b\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-Late: 1\r\n\r\n";
  for (const size_t size : {1, 5, 1000}) {
    const auto request = parsed(bytes, size);
    EXPECT_EQ(request.body, "abc0123456789abcdef");
    EXPECT_EQ(find_header(request.headers, "x-late"), nullptr);
  }
}

TEST(RequestParserTest, RefusesWhatIsNoRequest) {
  EXPECT_EQ(status_of("hello\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\n" + kHost + "\r\n"), 505);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n" + kHost + "a b: c\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET no-path HTTP/1.1\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET /%zz HTTP/1.1\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET /%00 HTTP/1.1\r\n" + kHost + "\r\n"), 400);
  EXPECT_EQ(status_of("GET /%4 HTTP/1.1\r\n" + kHost + "\r\n"), 400);
}

// What two servers read differently lets one request hide in another.
TEST(RequestParserTest, RefusesLengthsThatDisagree) {
  const std::string start = "POST / HTTP/1.1\r\n" + kHost;
  EXPECT_EQ(status_of(start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(status_of(start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"), 400);
  EXPECT_EQ(status_of(start + "Content-Length: -3\r\n\r\nabc"), 400);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
}

TEST(RequestParserTest, HoldsItsLimits) {
  const std::string start = "POST / HTTP/1.1\r\n" + kHost;
  EXPECT_EQ(status_of(start + "Content-Length: 100\r\n\r\n" + std::string(100, 'a')), 200);
  EXPECT_EQ(status_of(start + "Content-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(status_of(start + "Content-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: chunked\r\n\r\n65\r\n"), 413);
  EXPECT_EQ(status_of(start + "Transfer-Encoding: chunked\r\n\r\n60\r\n" + std::string(96, 'a') +
                      "\r\n5\r\n"),
            413);
  EXPECT_EQ(status_of(start + "X: " + std::string(600, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of(std::string(501, 'G')), 431);  // a line that does not end
  EXPECT_EQ(status_of(start + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(600, 'a')), 400);
  std::string many = "GET / HTTP/1.1\r\n" + kHost;
  for (int i = 0; i < 100; ++i) many += "a:\r\n";
  EXPECT_EQ(status_of(many + "\r\n"), 431);
}

TEST(RequestParserTest, KnowsWhoWaits) {
  RequestParser parser(small_limits());
  parser.feed("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_TRUE(parser.wants_continue());
  EXPECT_TRUE(parser.keeps_alive());
  RequestParser closing(small_limits());
  closing.feed("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_FALSE(closing.wants_continue());
  EXPECT_FALSE(closing.keeps_alive());
}

}  // namespace
}  // namespace fovea::serve
