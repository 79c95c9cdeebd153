#include "fovea/files/byte_source.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea {

void ByteSource::check_range(uint64_t offset, uint64_t count) const {
  if (offset > size() || count > size() - offset) {
    fail<DataError>("{}: {} bytes are wanted from byte {} on, but there are {}; it is truncated",
                    name_, count, offset, size());
  }
}

FileSource::FileSource(const std::string& path) : ByteSource(printable(path)), file_(path) {}

void FileSource::read(uint64_t offset, std::span<uint8_t> out) const {
  check_range(offset, out.size());
  file_.read(offset, out);
}

void MemorySource::read(uint64_t offset, std::span<uint8_t> out) const {
  check_range(offset, out.size());
  std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
}

PartSource::PartSource(const ByteSource& whole, std::string name, uint64_t offset, uint64_t size)
    : ByteSource(std::move(name)), whole_(whole), offset_(offset), size_(size) {
  if (offset > whole.size() || size > whole.size() - offset) {
    fail<DataError>("{}: {} bytes from byte {} of {}, which has {}; it is truncated", this->name(),
                    size, offset, whole.name(), whole.size());
  }
}

void PartSource::read(uint64_t offset, std::span<uint8_t> out) const {
  check_range(offset, out.size());
  whole_.read(offset_ + offset, out);
}

struct FilePool::State {
  std::mutex mutex;
  std::vector<std::shared_ptr<const FileSource>> files;  // by index; null: not open
  std::deque<size_t> opened;                             // oldest first
  size_t max_open = 0;
};

FilePool::FilePool(std::vector<std::string> paths, size_t max_open)
    : paths_(std::move(paths)), state_(std::make_unique<State>()) {
  state_->files.resize(paths_.size());
  state_->max_open = std::max<size_t>(max_open, 1);
}

FilePool::~FilePool() = default;

std::shared_ptr<const FileSource> FilePool::open(size_t index) const {
  const std::lock_guard lock(state_->mutex);
  auto& file = state_->files.at(index);
  if (file) return file;
  file = std::make_shared<const FileSource>(paths_[index]);
  const auto result = file;
  state_->opened.push_back(index);
  if (state_->opened.size() > state_->max_open) {
    state_->files[state_->opened.front()].reset();
    state_->opened.pop_front();
  }
  return result;
}

}  // namespace fovea
