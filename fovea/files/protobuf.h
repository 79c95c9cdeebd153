// The pieces of the protocol-buffer wire format that Fovea writes: TensorBoard's events and ONNX
// models. libprotobuf is not linked: libtorch exports the symbols of another version of it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace fovea::protobuf {

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// The bytes of a number as they lie in memory.
template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// Seven bits a byte, the lowest first.
std::string varint(uint64_t value);

// A field's number and kind, which stand in front of its value.
std::string key(uint64_t field, WireType type);

// Whole fields.
std::string integer(uint64_t field, int64_t value);
std::string real64(uint64_t field, double value);
std::string real32(uint64_t field, float value);
std::string bytes(uint64_t field, std::string_view value);  // texts, and messages within messages

}  // namespace fovea::protobuf
