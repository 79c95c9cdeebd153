#include "fovea/files/lines.h"

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

#include "fovea/core/error.h"

namespace fovea {
namespace {

constexpr size_t kReadBytes = size_t{1} << 16;

}  // namespace

LineReader::LineReader(std::string path, uint64_t max_line_bytes)
    : file_(std::move(path)), max_line_bytes_(max_line_bytes), block_(kReadBytes) {}

bool LineReader::next(std::string& line) {
  line.clear();
  is_whole_ = false;
  while (!is_whole_) {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = file_.read_some(position_, block_);
      position_ += end_;
      if (end_ == 0) break;
    }
    const auto* first = block_.data() + begin_;
    const auto* found = static_cast<const uint8_t*>(std::memchr(first, '\n', end_ - begin_));
    const size_t count = found != nullptr ? static_cast<size_t>(found - first) : end_ - begin_;
    if (line.size() + count > max_line_bytes_) {
      fail<DataError>("{}: line {} has more than {} bytes, the most that a line of it can have",
                      file_.name(), number_ + 1, max_line_bytes_);
    }
    line.append(reinterpret_cast<const char*>(first), count);
    is_whole_ = found != nullptr;
    begin_ += count + (is_whole_ ? 1 : 0);
  }
  if (!is_whole_ && line.empty()) return false;
  ++number_;
  return true;
}

void each_whole_line(
    const std::string& path, uint64_t max_line_bytes,
    const std::function<void(const std::string& line, const std::string& source)>& take) {
  LineReader lines(path, max_line_bytes);
  int64_t number = 0;
  for (std::string line; lines.next(line) && lines.is_whole();) {
    take(line, fmt::format("{}:{}", path, ++number));
  }
}

}  // namespace fovea
