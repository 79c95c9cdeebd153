// The mask of a large image, written from above to below: a class for each pixel as a tiled TIFF,
// and a small picture of it over the image.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/large_image/shrunk_image.h"
#include "fovea/data/large_image/tiff.h"

namespace fovea::data {

struct MaskWriterOptions {
  ImageSize size;                       // of the image, and of the mask
  int64_t num_classes = 2;              // up to 256 in bytes, up to 65,536 in two bytes each
  int64_t overview_side = 2048;         // longest side of the overview
  std::string compression = "deflate";  // as TiffWriterOptions
};

// BigTIFF where the file could pass 4 GB. In memory: a row of the TIFF's tiles, and the overview.
// Neither file has its name before finish(), and without it nothing stays behind.
class MaskWriter {
 public:
  // Throws ConfigError: more classes than fit, sizes or a compression that cannot be; WriteError:
  // the file cannot be made.
  MaskWriter(const std::string& path, const MaskWriterOptions& options);

  // `count` rows [count, W] of classes in [0, num_classes), from above; each row once. Throws
  // WriteError: the disk is full.
  void write_rows(std::span<const int32_t> classes, int64_t count);
  // All rows must have been written. overview: the PNG to write, or empty; picture: the image with
  // overview_size(), RGB or gray, such as shrunk_image gives, over which the classes are laid in
  // their colours, see tint(). A pixel of the overview has the class that most of its pixels have,
  // the smaller of two. -> the overview; empty: none was asked for. Throws WriteError.
  Image finish(const std::string& overview = {}, const Image& picture = {});

  ImageSize overview_size() const { return overview_size_; }
  // [num_classes], once all rows are written.
  const std::vector<int64_t>& pixels_of_classes() const { return pixels_of_classes_; }

 private:
  void count_row(const int32_t* classes);
  void end_overview_row();
  void store_row(const int32_t* classes, uint8_t* out) const;

  MaskWriterOptions options_;
  TiffWriter tiff_;
  int64_t next_row_ = 0;
  std::vector<int64_t> pixels_of_classes_;
  ImageSize overview_size_;
  std::vector<int32_t> counts_;    // [w, num_classes] of the overview's row that is under way
  std::vector<int32_t> overview_;  // [h, w] classes
  std::vector<uint8_t> stored_;    // rows as they stand in the file
};

}  // namespace fovea::data
