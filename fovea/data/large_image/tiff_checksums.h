// The checksums of deflate in TIFF files, which libtiff does not look at: it stops where a strip or
// tile has its pixels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/large_image/tiff_handle.h"

namespace fovea::data {

class TiffChecksums {
 public:
  // Of the directory that is set. `handle` outlives this.
  explicit TiffChecksums(const TiffHandle& handle);
  // Unpacks a strip or tile once more, to its end. `bytes`: of its pixels. Nothing to do where the
  // file is not packed with deflate. Throws DataError: a wrong checksum, a stream that is cut or
  // holds more than `bytes`.
  void check(uint32_t block, int64_t bytes) const;
  // The same, where libtiff has made `pixels` of the whole of it: their sum is that of the stream
  // unless a predictor or another byte order lies between, and then nothing is unpacked.
  void check(uint32_t block, std::span<const uint8_t> pixels) const;

 private:
  bool ends_with_sum_of(uint32_t block, std::span<const uint8_t> pixels) const;

  const TiffHandle& handle_;
  bool is_deflate_ = false, has_reversed_bits_ = false;
  mutable std::vector<uint8_t> packed_, unpacked_;
};

}  // namespace fovea::data
