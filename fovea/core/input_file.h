// Files that are read: the one place that opens them, regular files alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fovea {

// An open regular file. Whatever stands under a name, nobody waits for it: a pipe without a writer,
// a terminal, a device that never ends are refused. Bytes are read at places, not in turn, so that
// any number of threads share one. It does not keep its path, which messages need: reading a sample
// takes no memory.
class NamelessFile {
 public:
  // Throws DataError naming the path, and what stands there where it is no regular file.
  explicit NamelessFile(const std::string& path);
  ~NamelessFile();
  NamelessFile(NamelessFile&& other) noexcept;
  NamelessFile& operator=(NamelessFile&&) = delete;

  uint64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return descriptor_; }
  // The caller closes the descriptor; nothing is read through the object any more.
  int release();

  // Fills `out` from `offset` on. Returns how many bytes: fewer only where the file ends. Throws
  // DataError where the disk does not answer.
  size_t read_some(uint64_t offset, std::span<uint8_t> out, const std::string& path) const;
  // The same; throws DataError where the file ends before, too.
  void read(uint64_t offset, std::span<uint8_t> out, const std::string& path) const;

 private:
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// The same with its path.
class InputFile {
 public:
  explicit InputFile(std::string path) : path_(std::move(path)), file_(path_) {}

  // The path, as it may stand in messages.
  std::string name() const;
  uint64_t size() const { return file_.size(); }
  int descriptor() const { return file_.descriptor(); }
  int release() { return file_.release(); }
  size_t read_some(uint64_t offset, std::span<uint8_t> out) const {
    return file_.read_some(offset, out, path_);
  }
  void read(uint64_t offset, std::span<uint8_t> out) const { file_.read(offset, out, path_); }

 private:
  std::string path_;
  NamelessFile file_;
};

// Throws DataError "x: no such folder; expected ..." where `path` is none.
void check_input_folder(const std::string& path, std::string_view expected);

// Throws Error where something else than a regular file stands under `path`, which would be written
// to or replaced; nothing may stand there.
void check_output_file(const std::string& path);

}  // namespace fovea
