#include "fovea/data/large_image/tiff_checksums.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "fovea/files/byte_reader.h"

namespace fovea::data {
namespace {

constexpr size_t kPackedBlock = size_t{1} << 16, kUnpackedBlock = size_t{1} << 18;

struct Inflater {
  Inflater() {
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream stream{};
};

uint16_t short_tag(TIFF* tiff, uint32_t tag) {
  uint16_t value = 0;
  return TIFFGetFieldDefaulted(tiff, tag, &value) == 1 ? value : uint16_t{0};
}

}  // namespace

TiffChecksums::TiffChecksums(const TiffHandle& handle) : handle_(handle) {
  const auto compression = short_tag(handle.get(), TIFFTAG_COMPRESSION);
  is_deflate_ = compression == COMPRESSION_ADOBE_DEFLATE || compression == COMPRESSION_DEFLATE;
  has_reversed_bits_ = short_tag(handle.get(), TIFFTAG_FILLORDER) == FILLORDER_LSB2MSB;
  if (!is_deflate_) return;
  packed_.resize(kPackedBlock);
  unpacked_.resize(kUnpackedBlock);
}

void TiffChecksums::check(uint32_t block, std::span<const uint8_t> pixels) const {
  if (!is_deflate_ || ends_with_sum_of(block, pixels)) return;
  check(block, static_cast<int64_t>(pixels.size()));
}

// The sum is the stream's last four bytes, big-endian (RFC 1950).
bool TiffChecksums::ends_with_sum_of(uint32_t block, std::span<const uint8_t> pixels) const {
  std::array<uint8_t, 4> stored = {};
  const uint64_t count = TIFFGetStrileByteCount(handle_.get(), block);
  if (has_reversed_bits_ || count < stored.size()) return false;
  const uint64_t end = TIFFGetStrileOffset(handle_.get(), block) + count;
  const int64_t got = handle_.read_at(end - stored.size(), stored);
  const auto sum = static_cast<uint32_t>(adler32_z(1, pixels.data(), pixels.size()));
  return got == static_cast<int64_t>(stored.size()) &&
         load_number<uint32_t>(stored.data(), std::endian::big) == sum;
}

void TiffChecksums::check(uint32_t block, int64_t bytes) const {
  if (!is_deflate_) return;
  uint64_t offset = TIFFGetStrileOffset(handle_.get(), block);
  uint64_t left = TIFFGetStrileByteCount(handle_.get(), block);
  Inflater inflater;
  z_stream& stream = inflater.stream;
  for (int code = Z_OK; code != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const int64_t got = handle_.read_at(
          offset, std::span(packed_).first(std::min<uint64_t>(left, packed_.size())));
      if (got < 0) handle_.fail_at(fmt::format("block {}: {}", block, std::strerror(errno)));
      if (got == 0) handle_.fail_at(fmt::format("block {} is truncated", block));
      if (has_reversed_bits_) TIFFReverseBits(packed_.data(), static_cast<tmsize_t>(got));
      offset += static_cast<uint64_t>(got);
      left -= static_cast<uint64_t>(got);
      stream.next_in = packed_.data();
      stream.avail_in = static_cast<unsigned>(got);
    }
    stream.next_out = unpacked_.data();
    stream.avail_out = static_cast<unsigned>(unpacked_.size());
    code = inflate(&stream, Z_NO_FLUSH);
    const bool is_longer = stream.total_out > static_cast<uint64_t>(bytes);
    if ((code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) || is_longer) {
      handle_.fail_at(fmt::format("block {}: its deflate stream is damaged", block));
    }
  }
}

}  // namespace fovea::data
