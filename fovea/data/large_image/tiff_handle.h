// An open TIFF file of libtiff, whose messages go into exceptions.
#pragma once

#include <tiffio.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "fovea/core/error.h"

namespace fovea::data {

class TiffHandle {
 public:
  // mode: libtiff's. The file descriptor stays the caller's business only where opening fails.
  // Throws DataError.
  TiffHandle(int file, const std::string& name, const char* mode);
  // Bytes at a place: fewer than asked for only where they end.
  using ReadAt = std::function<size_t(uint64_t offset, std::span<uint8_t> out)>;
  // For reading, from anywhere. Throws DataError.
  TiffHandle(ReadAt read, uint64_t size, const std::string& name, const char* mode);
  ~TiffHandle();
  TiffHandle(const TiffHandle&) = delete;
  TiffHandle& operator=(const TiffHandle&) = delete;

  TIFF* get() const { return tiff_; }
  // Throws E: the file, what was done, and libtiff's first reason for it.
  template <class E = DataError>
  [[noreturn]] void fail_at(std::string_view what) const {
    fail<E>("{}", describe(what));
  }
  // The same, where libtiff has filled damaged pixels with something and only warned of it.
  void fail_if_damaged(std::string_view what) const {
    if (is_damaged_) fail_at(what);
  }
  // Bytes of the file at a place: fewer only where it ends; -1 and errno where the disk does not
  // answer.
  int64_t read_at(uint64_t offset, std::span<uint8_t> out) const;
  // Closes the file and says whether all of it was written.
  bool close();

 private:
  static int note_error(TIFF* tiff, void* handle, const char* module, const char* format,
                        va_list arguments);
  static int note_warning(TIFF* tiff, void* handle, const char* module, const char* format,
                          va_list arguments);
  TIFFOpenOptions* options();
  std::string describe(std::string_view what) const;

  std::string name_;
  mutable std::string reason_;
  mutable bool is_damaged_ = false;
  ReadAt read_;            // empty: a descriptor
  uint64_t size_ = 0;      // of what read_ reads
  uint64_t position_ = 0;  // libtiff's, in that
  TIFF* tiff_ = nullptr;
};

// A tag's number; `missing` where neither the file nor TIFF has a value.
template <class T>
T tiff_tag(TIFF* tiff, uint32_t tag, T missing) {
  T value{};
  return TIFFGetFieldDefaulted(tiff, tag, &value) == 1 ? value : missing;
}

}  // namespace fovea::data
