#include "fovea/files/decompress.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr uint64_t kZstdRatio = 1 << 16;  // likewise, of Zstandard

void check_ratio(std::string_view in, uint64_t bytes, uint64_t ratio, const std::string& what) {
  if (bytes / ratio <= in.size()) return;
  fail<DataError>("{}: {} compressed bytes for {}; the file is truncated or damaged", what,
                  in.size(), bytes);
}

}  // namespace

std::string inflate_all(std::string_view in, uint64_t bytes, DeflateKind kind,
                        const std::string& what) {
  check_ratio(in, bytes, kDeflateRatio, what);
  z_stream stream{};
  if (inflateInit2(&stream, kind == DeflateKind::kRaw ? -15 : 15 + 32) != Z_OK)
    fail<DataError>("{}: zlib: out of memory", what);
  std::string out(bytes, '\0');
  constexpr size_t kBlock = size_t{1} << 30;  // zlib counts in 32 bits
  size_t read = 0, written = 0;
  int code = Z_OK;
  char beyond = 0;  // room to see that the stream goes on where it should end
  while (code == Z_OK) {
    const size_t in_count = std::min(kBlock, in.size() - read);
    const size_t out_count = std::min(kBlock, out.size() - written);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data() + read));
    stream.avail_in = static_cast<unsigned>(in_count);
    stream.next_out = reinterpret_cast<Bytef*>(out_count > 0 ? out.data() + written : &beyond);
    stream.avail_out = static_cast<unsigned>(std::max<size_t>(out_count, 1));
    code = inflate(&stream, Z_NO_FLUSH);
    read += in_count - stream.avail_in;
    if (out_count == 0 && stream.avail_out == 0) break;
    if (out_count > 0) written += out_count - stream.avail_out;
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || written != bytes || read != in.size()) {
    fail<DataError>("{}: its deflate stream is damaged, or is not of the {} bytes announced", what,
                    bytes);
  }
  return out;
}

std::string unzstd_all(std::string_view in, uint64_t bytes, const std::string& what) {
  check_ratio(in, bytes, kZstdRatio, what);
  std::string out(bytes, '\0');
  const auto written = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(written) || written != bytes) {
    fail<DataError>("{}: its Zstandard stream is damaged, or is not of the {} bytes announced ({})",
                    what, bytes,
                    ZSTD_isError(written) ? ZSTD_getErrorName(written) : std::to_string(written));
  }
  return out;
}

}  // namespace fovea
