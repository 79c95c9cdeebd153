#include "fovea/files/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"

namespace fovea {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;

struct GzClose {
  void operator()(gzFile file) const { gzclose_r(file); }
};

}  // namespace

std::vector<uint8_t> read_gzip(const std::string& path, size_t max_bytes) {
  InputFile input(path);
  const std::unique_ptr<gzFile_s, GzClose> file(gzdopen(input.descriptor(), "rb"));
  if (!file) fail<DataError>("{}: zlib: out of memory", input.name());
  input.release();  // zlib closes it
  std::vector<uint8_t> bytes;
  while (bytes.size() < max_bytes) {
    const size_t old_size = bytes.size();
    const size_t wanted = std::min(std::max(kBlockBytes, old_size), max_bytes - old_size);
    const size_t block = std::min(wanted, size_t{1} << 30);
    bytes.resize(old_size + block);
    const int got = gzread(file.get(), bytes.data() + old_size, static_cast<unsigned>(block));
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    // zlib reports a stream that stops early as Z_BUF_ERROR only after handing out what came before
    // the break.
    if (got < 0 || code == Z_BUF_ERROR) {
      fail<DataError>("{}: {}; fetch the file again", path,
                      code == Z_BUF_ERROR
                          ? "the gzip stream is truncated"
                          : std::string("damaged gzip stream (") +
                                (code == Z_ERRNO ? std::strerror(errno) : message) + ")");
    }
    bytes.resize(old_size + static_cast<size_t>(got));
    if (static_cast<size_t>(got) < block) break;
  }
  return bytes;
}

}  // namespace fovea
