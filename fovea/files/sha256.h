// SHA-256 (FIPS 180-4), and with a key: HMAC (RFC 2104).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fovea {

class Sha256 {
 public:
  void update(const void* data, size_t bytes);
  // The digest of all that was given. Call one of the two once, last.
  std::array<uint8_t, 32> finish_bytes();
  // As 64 hexadecimal digits.
  std::string finish();

 private:
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};
  size_t filled_ = 0;  // bytes of block_
  uint64_t total_ = 0;
};

// 32 bytes that only who has the key can make, or check.
std::string hmac_sha256(std::string_view key, std::string_view message);
// In a time that does not tell where they differ.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace fovea
