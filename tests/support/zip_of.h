// Zip archives for tests of what reads them.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fovea::support {

// A member as given, field by field, so that tests can lie in any of them.
struct RawZipMember {
  std::string name;
  std::string data;
  uint16_t method = 0;
  uint16_t flags = 0;
  uint32_t bytes = 0;   // announced
  uint32_t offset = 0;  // announced, on top of the right one
  bool is_64 = false;   // sizes stand in the extra field
};

// A stored one, without a lie.
inline RawZipMember zip_member(const std::string& name, const std::string& data) {
  return {.name = name, .data = data, .bytes = static_cast<uint32_t>(data.size())};
}

inline void put(std::vector<uint8_t>& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(i < 8 ? value >> (8 * i) : 0));
}
inline void put(std::vector<uint8_t>& out, const std::string& text) {
  out.insert(out.end(), text.begin(), text.end());
}

inline std::vector<uint8_t> zip_of(const std::vector<RawZipMember>& members) {
  std::vector<uint8_t> out, directory;
  for (const RawZipMember& member : members) {
    const auto offset = static_cast<uint32_t>(out.size()) + member.offset;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(member.data.data()),
                           static_cast<unsigned>(member.data.size()));
    put(out, 0x04034B50, 4);
    put(out, 20, 2);
    put(out, member.flags, 2);
    put(out, member.method, 2);
    put(out, 0, 4);
    put(out, crc, 4);
    put(out, member.data.size(), 4);
    put(out, member.bytes, 4);
    put(out, member.name.size(), 2);
    put(out, 0, 2);
    put(out, member.name);
    put(out, member.data);
    put(directory, 0x02014B50, 4);
    put(directory, 20, 2);
    put(directory, 20, 2);
    put(directory, member.flags, 2);
    put(directory, member.method, 2);
    put(directory, 0, 4);
    put(directory, crc, 4);
    put(directory, member.is_64 ? 0xFFFFFFFF : member.data.size(), 4);
    put(directory, member.is_64 ? 0xFFFFFFFF : member.bytes, 4);
    put(directory, member.name.size(), 2);
    put(directory, member.is_64 ? 24 : 0, 2);
    put(directory, 0, 10);
    put(directory, offset, 4);
    put(directory, member.name);
    if (!member.is_64) continue;
    put(directory, 0x7777, 2);  // another field first
    put(directory, 0, 2);
    put(directory, 1, 2);
    put(directory, 16, 2);
    put(directory, member.bytes, 8);
    put(directory, member.data.size(), 8);
  }
  const size_t start = out.size();
  out.insert(out.end(), directory.begin(), directory.end());
  put(out, 0x06054B50, 4);
  put(out, 0, 4);
  put(out, members.size(), 2);
  put(out, members.size(), 2);
  put(out, directory.size(), 4);
  put(out, start, 4);
  put(out, 0, 2);
  return out;
}

// Names and contents, stored as they are: what torch.save, np.savez and a wheel are.
inline std::vector<uint8_t> stored_zip(
    const std::vector<std::pair<std::string, std::string>>& members) {
  std::vector<RawZipMember> all;
  for (const auto& [name, data] : members) all.push_back(zip_member(name, data));
  return zip_of(all);
}

}  // namespace fovea::support
