// What the samples of a TIFF file mean, and how they become bytes of gray or RGB.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/large_image/tiff_handle.h"

namespace fovea::data {

class TiffColours {
 public:
  // Of the directory that is set, which it makes unpack JPEG to RGB. Throws DataError: samples that
  // are no pixels, a compression that libtiff was built without.
  explicit TiffColours(const TiffHandle& handle);

  int64_t bits() const { return bits_; }          // a sample, as stored
  int64_t samples() const { return samples_; }    // a pixel
  int64_t channels() const { return channels_; }  // of the image, 1 or 3
  bool is_planar() const { return is_planar_; }
  // YCbCr that is not JPEG's: libtiff itself makes RGB of a whole strip or tile, 3 samples of 8
  // bits.
  bool needs_whole_blocks() const { return needs_whole_blocks_; }
  // Fewer bytes than samples.
  bool is_subsampled() const { return needs_whole_blocks_; }

  // `count` packed samples to bytes, each `stride` behind the one before. Of 16 bits the high byte;
  // fewer than 8 are spread over 0 to 255, but of a palette, whose numbers they are.
  void unpack(const uint8_t* raw, int64_t count, uint8_t* out, int64_t stride) const;
  // `count` pixels of bytes [count, samples] to [count, channels].
  void write(const uint8_t* samples, int64_t count, uint8_t* out) const;

 private:
  enum class Kind { kGray, kInvertedGray, kPalette, kRgb, kPremultipliedRgb, kCmyk };

  void read_compression(TIFF* tiff);
  void read_kind(const TiffHandle& handle);
  void read_palette(const TiffHandle& handle);
  void check_extra_samples(TIFF* tiff, int64_t colours);

  Kind kind_ = Kind::kGray;
  int64_t bits_ = 8, samples_ = 1, channels_ = 1;
  bool is_planar_ = false, needs_whole_blocks_ = false;
  std::vector<std::array<uint8_t, 3>> palette_;
};

}  // namespace fovea::data
