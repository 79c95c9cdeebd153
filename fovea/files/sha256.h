// SHA-256 (FIPS 180-4), and with a key: HMAC (RFC 2104). OpenSSL computes both, with the
// processor's own instructions where it has some.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace fovea {

class Sha256 {
 public:
  // Throws Error where OpenSSL has no SHA-256: a configuration of the system may forbid it.
  Sha256();
  void update(const void* data, size_t bytes);
  // The digest of all that was given. Call one of the two once, last.
  std::array<uint8_t, 32> finish_bytes();
  // As 64 hexadecimal digits.
  std::string finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* state) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> state_;
};

// Of a whole text, as 64 hexadecimal digits.
std::string sha256_of(std::string_view text);

// 32 bytes that only who has the key can make, or check.
std::string hmac_sha256(std::string_view key, std::string_view message);
// In a time that does not tell where they differ.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace fovea
