// A zip archive of stored members, for tests: what np.savez and a wheel are.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fovea::data::testing {

inline std::vector<uint8_t> stored_zip(
    const std::vector<std::pair<std::string, std::vector<uint8_t>>>& members) {
  std::vector<uint8_t> zip, directory;
  const auto put = [](std::vector<uint8_t>& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  const auto append = [](std::vector<uint8_t>& out, const auto& bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  for (const auto& [name, bytes] : members) {
    const auto offset = zip.size();
    const auto crc = crc32(0, bytes.data(), static_cast<uInt>(bytes.size()));
    std::vector<uint8_t> common;  // of the local header and of the directory's entry
    put(common, 20, 2);           // version needed
    put(common, 0, 8);            // flags, stored, time, date
    put(common, crc, 4);
    put(common, bytes.size(), 4);
    put(common, bytes.size(), 4);
    put(common, name.size(), 2);
    put(common, 0, 2);  // no extra field
    put(zip, 0x04034b50, 4);
    append(zip, common);
    append(zip, name);
    append(zip, bytes);
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);  // made by
    append(directory, common);
    put(directory, 0, 2 + 2 + 2 + 4);  // comment, disk, attributes
    put(directory, offset, 4);
    append(directory, name);
  }
  const auto start = zip.size();
  append(zip, directory);
  put(zip, 0x06054b50, 4);
  put(zip, 0, 4);  // disks
  put(zip, members.size(), 2);
  put(zip, members.size(), 2);
  put(zip, directory.size(), 4);
  put(zip, start, 4);
  put(zip, 0, 2);  // no comment
  return zip;
}

// An .npy file of bytes. shape: as NumPy prints it, "(2, 3)".
inline std::vector<uint8_t> npy_of_bytes(const std::string& shape,
                                         const std::vector<uint8_t>& values) {
  auto header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::vector<uint8_t> npy = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  npy.push_back(static_cast<uint8_t>(header.size()));
  npy.push_back(static_cast<uint8_t>(header.size() >> 8));
  npy.insert(npy.end(), header.begin(), header.end());
  npy.insert(npy.end(), values.begin(), values.end());
  return npy;
}

}  // namespace fovea::data::testing
