// Bytes at offsets: a file, a part of one, or memory. What readers of archives read from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/core/input_file.h"

namespace fovea {

// Immutable and thread-safe.
class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // What messages call it.
  const std::string& name() const { return name_; }
  virtual uint64_t size() const = 0;
  // Fills `out` from `offset` on. Throws DataError: past the end, the disk does not answer.
  virtual void read(uint64_t offset, std::span<uint8_t> out) const = 0;

 protected:
  void check_range(uint64_t offset, uint64_t count) const;

 private:
  std::string name_;
};

// A regular file, read with pread(2): no position, so any number of threads share it.
class FileSource : public ByteSource {
 public:
  // Throws DataError: no such file, not a regular file.
  explicit FileSource(const std::string& path);
  explicit FileSource(InputFile file) : ByteSource(file.name()), file_(std::move(file)) {}
  uint64_t size() const override { return file_.size(); }
  void read(uint64_t offset, std::span<uint8_t> out) const override;

 private:
  InputFile file_;
};

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string name, std::vector<uint8_t> bytes)
      : ByteSource(std::move(name)), bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, std::span<uint8_t> out) const override;

 private:
  std::vector<uint8_t> bytes_;
};

// `size` bytes of `whole` from `offset` on, such as an archive inside an archive; `whole` outlives
// it. Throws DataError where that is past the end.
class PartSource : public ByteSource {
 public:
  PartSource(const ByteSource& whole, std::string name, uint64_t offset, uint64_t size);
  uint64_t size() const override { return size_; }
  void read(uint64_t offset, std::span<uint8_t> out) const override;

 private:
  const ByteSource& whole_;
  uint64_t offset_, size_;
};

// Files of one data set, opened when they are first read. At most `max_open` stay open, so that
// thousands of shards do not use up the descriptors of the process. Thread-safe.
class FilePool {
 public:
  explicit FilePool(std::vector<std::string> paths, size_t max_open = 256);
  ~FilePool();
  const std::vector<std::string>& paths() const { return paths_; }
  // Stays open as long as the result is held. Throws DataError as FileSource.
  std::shared_ptr<const FileSource> open(size_t index) const;

 private:
  struct State;
  std::vector<std::string> paths_;
  std::unique_ptr<State> state_;
};

}  // namespace fovea
