// Windows of a large image as a data set, so that what predicts images also predicts them.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/large_image/region_source.h"
#include "fovea/data/tiles/tiling.h"

namespace fovea::data {

// The tiles of a tiling as images without a label, in its order. Thread-safe; fast in that order: a
// band of whole rows, as high as a window, is read once and kept.
class RegionWindows : public Dataset {
 public:
  // `image` and `tiling`, which is one of its size without padding, outlive this. Throws DataError:
  // numbers that are no pixels of an image, or channels that are neither gray nor RGB.
  RegionWindows(const RegionSource& image, const Tiling& tiling);

  int64_t size() const override { return tiling_.count(); }
  // Of 16 bits the high byte, as of image files.
  void read(int64_t index, Sample& sample) const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return 0; }
  VolumeSize size_of(int64_t /*index*/) const override { return tiling_.tile_size(); }
  // "x.svs, 224 x 224 pixels at row 0, column 448"
  std::string describe(int64_t index) const override;

 private:
  void keep_band(int64_t top) const;

  const RegionSource& image_;
  const Tiling& tiling_;
  std::vector<std::string> class_names_;
  bool has_band_ = false;  // else rows are too long to be kept
  mutable std::mutex lock_;
  mutable int64_t band_top_ = -1;  // -1: nothing is kept
  mutable std::vector<uint8_t> band_;
};

}  // namespace fovea::data
