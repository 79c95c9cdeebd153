#include "fovea/files/sha256.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

void check(bool is_done) {
  if (is_done) return;
  const char* reason = ERR_reason_error_string(ERR_get_error());
  fail<Error>("OpenSSL computes no SHA-256 ({}); see the configuration that OPENSSL_CONF names",
              reason != nullptr ? reason : "no reason given");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* state) const { EVP_MD_CTX_free(state); }

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  check(state_ != nullptr && EVP_DigestInit_ex(state_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::update(const void* data, size_t bytes) {
  check(EVP_DigestUpdate(state_.get(), data, bytes) == 1);
}

std::array<uint8_t, 32> Sha256::finish_bytes() {
  std::array<uint8_t, 32> digest = {};
  check(EVP_DigestFinal_ex(state_.get(), digest.data(), nullptr) == 1);
  return digest;
}

std::string Sha256::finish() {
  std::string text;
  for (const uint8_t byte : finish_bytes()) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.finish();
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::array<uint8_t, 32> digest = {};
  check(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const uint8_t*>(message.data()), message.size(), digest.data(),
             nullptr) != nullptr);
  return {digest.begin(), digest.end()};
}

bool is_same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace fovea
