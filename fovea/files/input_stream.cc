#include "fovea/files/input_stream.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 17;
constexpr size_t kFirstBytes = size_t{1} << 12;  // enough where a header is all that is wanted
constexpr uint64_t kGzipRatio = 1032;  // zlib's documentation: no stream is smaller than that

}  // namespace

struct InputStream::Gzip {
  Gzip() : buffer(kBufferBytes) {
    if (inflateInit2(&stream, 15 + 16) != Z_OK) fail<DataError>("zlib: out of memory");
  }
  ~Gzip() { inflateEnd(&stream); }

  z_stream stream{};
  std::vector<uint8_t> buffer;
  bool is_between_members = false;
  size_t next_bytes = kFirstBytes;  // to read from the file
};

bool is_gzip(std::span<const uint8_t> start) {
  return start.size() >= 2 && start[0] == 0x1F && start[1] == 0x8B;
}

InputStream::InputStream(std::string path) : path_(path), file_(std::move(path)) {
  std::array<uint8_t, 2> magic = {};
  is_gzip_ = fovea::is_gzip(std::span(magic).first(file_.read_some(0, magic)));
  if (is_gzip_) gzip_ = std::make_unique<Gzip>();
  most_bytes_ = is_gzip_ ? file_.size() * kGzipRatio : file_.size();
}

InputStream::~InputStream() = default;

size_t InputStream::read_some(std::span<uint8_t> out) {
  const size_t got = file_.read_some(file_position_, out);
  file_position_ += got;
  return got;
}

size_t InputStream::read(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const auto rest = out.subspan(done);
    if (!is_gzip_) {
      const size_t count = read_some(rest);
      if (count == 0) break;
      done += count;
      continue;
    }
    auto& stream = gzip_->stream;
    if (stream.avail_in == 0) {
      const size_t count = read_some(std::span(gzip_->buffer).first(gzip_->next_bytes));
      gzip_->next_bytes = kBufferBytes;
      if (count == 0) {
        if (gzip_->is_between_members) break;
        fail<DataError>("{}: the gzip stream is truncated; fetch the file again", path_);
      }
      stream.next_in = gzip_->buffer.data();
      stream.avail_in = static_cast<unsigned>(count);
    }
    if (gzip_->is_between_members) {  // files of several members are legal: bgzip, cat a.gz b.gz
      for (; stream.avail_in > 0 && *stream.next_in == 0; ++stream.next_in) --stream.avail_in;
      if (stream.avail_in == 0) continue;  // padding of tapes and of blocks
      inflateReset(&stream);
      gzip_->is_between_members = false;
    }
    const auto wanted = static_cast<unsigned>(std::min(rest.size(), size_t{1} << 30));
    stream.next_out = rest.data();
    stream.avail_out = wanted;
    const int code = inflate(&stream, Z_NO_FLUSH);
    done += wanted - stream.avail_out;
    if (code == Z_STREAM_END) {
      gzip_->is_between_members = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail<DataError>("{}: damaged gzip stream ({}); fetch the file again", path_,
                      stream.msg != nullptr ? stream.msg : zError(code));
    }
  }
  position_ += done;
  return done;
}

void InputStream::read_exactly(std::span<uint8_t> out, std::string_view what) {
  const uint64_t start = position_;
  const size_t got = read(out);
  if (got != out.size()) {
    fail<DataError>("{}: ends {} bytes into the {} bytes of {} at offset {}; the file is truncated",
                    path_, got, out.size(), what, start);
  }
}

void InputStream::skip(uint64_t count) {
  if (!is_gzip_) {
    if (count > most_bytes_ - std::min(position_, most_bytes_)) {
      fail<DataError>("{}: ends before offset {} + {}; the file is truncated", path_, position_,
                      count);
    }
    position_ += count;
    file_position_ = position_;
    return;
  }
  std::vector<uint8_t> unused(std::min<uint64_t>(count, kBufferBytes));
  while (count > 0) {
    const size_t step = std::min<uint64_t>(count, unused.size());
    read_exactly(std::span(unused).first(step), "skipped data");
    count -= step;
  }
}

std::vector<uint8_t> read_gzip(const std::string& path, size_t max_bytes) {
  constexpr size_t kBlockBytes = size_t{1} << 20;
  InputStream stream(path);
  std::vector<uint8_t> bytes;
  while (bytes.size() < max_bytes) {
    const size_t old_size = bytes.size();
    bytes.resize(std::min(old_size + std::max(kBlockBytes, old_size), max_bytes));
    const size_t got = stream.read(std::span(bytes).subspan(old_size));
    const bool is_end = got < bytes.size() - old_size;
    bytes.resize(old_size + got);
    if (is_end) break;
  }
  return bytes;
}

}  // namespace fovea
