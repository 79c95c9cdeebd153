// A file in memory, read-only, as the system pages it in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fovea/core/bus_errors.h"
#include "fovea/core/input_file.h"

namespace fovea {

// Reading mapped bytes that the disk cannot give, or that another program has cut off, raises a
// signal, which would end the process. `ready` asks for the bytes first and turns most of that into
// an error. What still happens while they are used is caught: zeros stand in for the page, the file
// remembers that, and whoever used the bytes finds it with MappedReads. Thread-safe.
class MappedFile {
 public:
  // Throws DataError: no such file, not a regular file, empty, cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  // `count` bytes from `offset` on, in memory. Throws DataError: past the end, cannot be read. Use
  // them within the life of a MappedReads, and check it before the result counts.
  std::span<const uint8_t> ready(uint64_t offset, uint64_t count) const;
  // All bytes, none of which is asked for: for those of whom any number of threads, or others'
  // code, use what they need of them. Call check_unchanged() afterwards, before the result counts.
  std::span<const uint8_t> bytes() const { return {first_, size_}; }
  // The file opened once more, for bytes that are used once: to map their pages takes longer than
  // to read them. Nothing where its name means no file any more, or another. Throws DataError as
  // InputFile.
  std::optional<InputFile> opened_again() const;
  // Throws DataError where the file is not what it was when it was opened: a page of it was lost,
  // it has another length, it was written to.
  void check_unchanged() const;

 private:
  struct State {
    uint64_t bytes = 0;
    int64_t seconds = 0, nanoseconds = 0;  // of the last change
  };
  // Nothing: no name leads to the file any more, so that nobody can find it to change it.
  std::optional<State> state_now() const;
  void check_length(uint64_t wanted) const;

  std::string path_, name_;
  const uint8_t* first_ = nullptr;
  uint64_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;  // which file it is, whatever its name stands for later
  State opened_;
  WatchedMapping* watched_ = nullptr;
};

// Mapped bytes that this thread uses between construction and `check`.
class MappedReads {
 public:
  MappedReads() : before_(lost_pages_of_thread()) {}
  // Throws DataError where a page could not be read meanwhile, so that zeros were used in its
  // place; name(): what the message calls the sample.
  template <class F>
  void check(F&& name) const {
    if (lost_pages_of_thread() != before_) fail_with(name());
  }

 private:
  [[noreturn]] static void fail_with(const std::string& name);

  uint64_t before_;
};

}  // namespace fovea
