// An open TIFF file of libtiff, whose messages go into exceptions.
#pragma once

#include <tiffio.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace fovea::data {

// mode: libtiff's. The file descriptor stays the caller's business only where opening fails. Throws
// DataError.
class TiffHandle {
 public:
  TiffHandle(int file, const std::string& name, const char* mode);
  ~TiffHandle();
  TiffHandle(const TiffHandle&) = delete;
  TiffHandle& operator=(const TiffHandle&) = delete;

  TIFF* get() const { return tiff_; }
  // Throws DataError: the file, what was done, and libtiff's first reason for it.
  [[noreturn]] void fail_at(std::string_view what) const;
  // Closes the file and says whether all of it was written.
  bool close();

 private:
  static int note_error(TIFF* tiff, void* handle, const char* module, const char* format,
                        va_list arguments);

  std::string name_;
  mutable std::string reason_;
  TIFF* tiff_ = nullptr;
};

}  // namespace fovea::data
