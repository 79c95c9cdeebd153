#include "fovea/files/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace fovea {
namespace {

constexpr std::array<uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void compress(std::array<uint32_t, 8>& state, const uint8_t* data, size_t blocks) {
  for (; blocks > 0; --blocks, data += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      uint32_t word;
      std::memcpy(&word, data + 4 * i, 4);
      w[i] = __builtin_bswap32(word);
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state[i] += added[i];
  }
}

}  // namespace

void Sha256::update(const void* data, size_t bytes) {
  const auto* from = static_cast<const uint8_t*>(data);
  total_ += bytes;
  if (filled_ > 0) {
    const size_t taken = std::min(bytes, block_.size() - filled_);
    std::memcpy(block_.data() + filled_, from, taken);
    filled_ += taken, from += taken, bytes -= taken;
    if (filled_ < block_.size()) return;
    compress(state_, block_.data(), 1);
  }
  compress(state_, from, bytes / 64);
  filled_ = bytes % 64;
  if (filled_ > 0) std::memcpy(block_.data(), from + bytes - filled_, filled_);
}

std::array<uint8_t, 32> Sha256::finish_bytes() {
  const uint64_t bits = __builtin_bswap64(total_ * 8);
  const std::array<uint8_t, 64> padding = {0x80};
  const size_t zeros = (filled_ < 56 ? 56 : 120) - filled_;
  update(padding.data(), std::min<size_t>(zeros, 64));
  if (zeros > 64) update(padding.data() + 1, zeros - 64);
  update(&bits, 8);
  std::array<uint8_t, 32> digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string Sha256::finish() {
  std::string text;
  for (const uint8_t byte : finish_bytes()) text += fmt::format("{:02x}", byte);
  return text;
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::array<uint8_t, 64> block{};
  if (key.size() > block.size()) {
    Sha256 shorter;
    shorter.update(key.data(), key.size());
    const auto digest = shorter.finish_bytes();
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  Sha256 inner, outer;
  for (auto& byte : block) byte ^= 0x36;
  inner.update(block.data(), block.size());
  inner.update(message.data(), message.size());
  for (auto& byte : block) byte ^= 0x36 ^ 0x5c;
  outer.update(block.data(), block.size());
  const auto within = inner.finish_bytes();
  outer.update(within.data(), within.size());
  const auto digest = outer.finish_bytes();
  return {digest.begin(), digest.end()};
}

bool is_same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<uint8_t>(a[i]) ^ static_cast<uint8_t>(b[i]));
  }
  return difference == 0;
}

}  // namespace fovea
