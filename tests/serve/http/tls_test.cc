#include <gmock/gmock.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "fovea/core/error.h"
#include "fovea/serve/http/http_server.h"
#include "tests/serve/http/echo_handler.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/temp_dir.h"

namespace fovea::serve {
namespace {

using ::testing::HasSubstr;

using KeyPointer = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

KeyPointer make_key() { return {EVP_EC_gen("P-256"), &EVP_PKEY_free}; }

void write_key(EVP_PKEY* key, const std::string& path) {
  BIO* const file = BIO_new_file(path.c_str(), "w");
  PEM_write_bio_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  BIO_free(file);
}

// Signed by its own key, for an hour.
void write_certificate(EVP_PKEY* key, const std::string& path) {
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  auto* const name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_sign(certificate, key, EVP_sha256());
  BIO* const file = BIO_new_file(path.c_str(), "w");
  PEM_write_bio_X509(file, certificate);
  BIO_free(file);
  X509_free(certificate);
}

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
