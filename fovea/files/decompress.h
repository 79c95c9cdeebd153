// Compressed bytes whose length without compression is known before: no more is ever taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea {

enum class DeflateKind {
  kRaw,     // a member of a zip archive
  kHeader,  // gzip or zlib, told from the first bytes, with its checksum
};

inline constexpr uint64_t kDeflateRatio = 1032;  // bytes that a byte of deflate makes at most

// All of `in` into exactly `bytes` bytes. Throws DataError naming `what`: damaged, of another
// length, more bytes than such a stream can hold.
std::string inflate_all(std::string_view in, uint64_t bytes, DeflateKind kind,
                        const std::string& what);
// The same of Zstandard's frames.
std::string unzstd_all(std::string_view in, uint64_t bytes, const std::string& what);

}  // namespace fovea
