// Numbers out of foreign bytes, in either byte order, never past the end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "fovea/core/error.h"

namespace fovea {

// The number at the front of `bytes`, which must hold sizeof(T) of them.
template <class T>
T load_number(const uint8_t* bytes, std::endian order) {
  using Bits = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  Bits bits;
  std::memcpy(&bits, bytes, sizeof(T));
  if (order != std::endian::native) {
    if constexpr (sizeof(T) == 2) bits = __builtin_bswap16(bits);
    if constexpr (sizeof(T) == 4) bits = __builtin_bswap32(bits);
    if constexpr (sizeof(T) == 8) bits = __builtin_bswap64(bits);
  }
  return std::bit_cast<T>(bits);
}

// Walks over bytes that somebody else owns. Each function throws DataError naming `source` where
// the bytes end too early.
class ByteReader {
 public:
  ByteReader(std::span<const uint8_t> bytes, std::string_view source,
             std::endian order = std::endian::little)
      : bytes_(bytes), source_(source), order_(order) {}

  size_t position() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  bool at_end() const { return left() == 0; }
  std::string_view source() const { return source_; }
  std::endian order() const { return order_; }
  // Of what is read from here on.
  void set_order(std::endian order) { order_ = order; }

  std::span<const uint8_t> take(uint64_t count) {
    if (count > left()) {
      fail<DataError>("{}: ends within {} bytes at offset {}, {} are left; the file is truncated",
                      source_, count, at_, left());
    }
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }
  void skip(uint64_t count) { take(count); }
  template <class T>
  T number() {
    return load_number<T>(take(sizeof(T)).data(), order_);
  }
  std::string_view text(uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

 private:
  std::span<const uint8_t> bytes_;
  std::string_view source_;
  std::endian order_;
  size_t at_ = 0;
};

}  // namespace fovea
