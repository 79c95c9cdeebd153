#include "fovea/files/protobuf.h"

namespace fovea::protobuf {

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
  return out;
}

std::string key(uint64_t field, WireType type) { return varint(field << 3 | type); }

std::string integer(uint64_t field, int64_t value) {
  return key(field, kVarint) + varint(static_cast<uint64_t>(value));
}

std::string real64(uint64_t field, double value) {
  return key(field, kFixed64) + little_endian(value);
}

std::string real32(uint64_t field, float value) {
  return key(field, kFixed32) + little_endian(value);
}

std::string bytes(uint64_t field, std::string_view value) {
  return key(field, kBytes) + varint(value.size()) + std::string(value);
}

}  // namespace fovea::protobuf
