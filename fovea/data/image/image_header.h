// The size of an image file from its first bytes, without decoding it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fovea/core/input_file.h"
#include "fovea/data/image/image_view.h"

namespace fovea::data {

// Height and width after the EXIF orientation, as load_image would give them, from the headers of
// an image file alone: a few reads. Empty where they do not tell it: a file that cannot be read,
// damaged headers, no image; decoding then says what is wrong.
std::optional<ImageSize> image_file_size(const std::string& path);

// Reads at places of a file, whole or not at all.
class HeaderFile {
 public:
  explicit HeaderFile(const std::string& path) : path_(path), file_(path) {}
  bool read(int64_t offset, std::span<uint8_t> bytes) const {
    return read_some(offset, bytes) == bytes.size();
  }
  // Fewer bytes than asked for only where the file ends.
  size_t read_some(int64_t offset, std::span<uint8_t> bytes) const {
    return file_.read_some(static_cast<uint64_t>(offset), bytes, path_);
  }
  uint64_t size() const { return file_.size(); }

 private:
  const std::string& path_;
  NamelessFile file_;
};

// As image_file_size, of files of one format.
std::optional<ImageSize> jpeg_file_size(const HeaderFile& file);
std::optional<ImageSize> png_file_size(const HeaderFile& file);

}  // namespace fovea::data
