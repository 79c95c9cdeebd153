#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "fovea/core/error.h"
#include "fovea/serve/http/http_server.h"
#include "tests/serve/http/echo_handler.h"
#include "tests/serve/http/raw_client.h"
#include "tests/serve/http/test_certificate.h"
#include "tests/support/temp_dir.h"

namespace fovea::serve {
namespace {

using ::testing::HasSubstr;

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    const auto key = make_key();
    write_key(key.get(), folder_.file("key.pem"));
    write_certificate(key.get(), folder_.file("cert.pem"));
    options_.port = 0;
    options_.threads = 1;
    options_.tls_certificate = folder_.file("cert.pem");
    options_.tls_key = folder_.file("key.pem");
  }

  std::string config_error() {
    try {
      const HttpServer server(options_, handler_);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  support::TempDir folder_;
  EchoHandler handler_;
  HttpServerOptions options_;
};

std::string read_all(SSL* connection) {
  std::string text;
  char piece[4096];
  for (int count = 0; (count = SSL_read(connection, piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<size_t>(count));
  }
  return text;
}

TEST_F(TlsTest, AnswersThroughTls) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  ASSERT_EQ(SSL_CTX_load_verify_locations(context.get(), options_.tls_certificate.c_str(), nullptr),
            1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const std::unique_ptr<SSL, decltype(&SSL_free)> connection(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(connection.get(), client.descriptor());
  ASSERT_EQ(SSL_connect(connection.get()), 1);
  const std::string body(100'000, 'x');
  const std::string request = get("/a") + post("/b", body, "Connection: close\r\n");
  ASSERT_EQ(SSL_write(connection.get(), request.data(), static_cast<int>(request.size())),
            static_cast<int>(request.size()));
  const std::string answers = read_all(connection.get());
  EXPECT_THAT(answers, HasSubstr("\r\n\r\nGET /a HTTP/1.1 200 OK"));
  EXPECT_TRUE(answers.ends_with("POST /b " + body));
  EXPECT_EQ(SSL_get_error(connection.get(), 0), SSL_ERROR_ZERO_RETURN);  // its end was said
}

TEST_F(TlsTest, EndsWithWhoSpeaksNoTls) {
  HttpServer server(options_, handler_);
  RawClient client(server.port());
  client.send(get("/a"));
  EXPECT_EQ(client.receive().status, 0);
  EXPECT_EQ(handler_.num_requests, 0);
}

TEST_F(TlsTest, RefusesWhatDoesNotFit) {
  const auto other = make_key();
  write_key(other.get(), options_.tls_key);
  EXPECT_THAT(config_error(), HasSubstr("key.pem"));
  options_.tls_key = options_.tls_certificate;
  EXPECT_THAT(config_error(), HasSubstr("expected the key of that certificate"));
  options_.tls_certificate = folder_.file("none.pem");
  EXPECT_THAT(config_error(), HasSubstr("none.pem"));
  options_.tls_key.clear();
  EXPECT_THAT(config_error(), HasSubstr("needs both"));
}

}  // namespace
}  // namespace fovea::serve
