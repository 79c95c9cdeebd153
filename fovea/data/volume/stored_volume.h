// What every reader of volumes hands over: numbers as they lie in a file, and how [C, D, H, W]
// walks through them. Type, byte order, axis order and scaling are resolved in one pass, here.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/scalar_type.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// The most values of one volume: 16 GiB as float.
inline constexpr int64_t kMaxVolumeValues = int64_t{1} << 32;

// Rows of a matrix from (d, h, w, 1) to millimetres, right-anterior-superior positive.
using Affine = std::array<std::array<double, 4>, 3>;

// Voxel sizes on the diagonal.
Affine affine_of_spacing(const std::array<double, 3>& spacing);

// The closest directions of the three axes: "RAS", "LPI" ...
std::string orientation_of(const Affine& affine);

struct StoredVolume {
  std::string source;  // for messages
  ScalarType type = ScalarType::kUint8;
  std::endian order = std::endian::little;
  std::shared_ptr<const void> owner;  // of the bytes
  std::span<const uint8_t> bytes;     // element 0 is the first; may hold more than is walked
  int64_t channels = 1;
  VolumeSize size;
  int64_t first = 0;                          // element of [0, 0, 0, 0]
  std::array<int64_t, 4> strides = {};        // of C, D, H, W, in elements; negative: a flip
  double slope = 1;                           // value = slope * stored + intercept,
  double intercept = 0;                       // in double, as nibabel and pydicom do
  std::array<double, 3> spacing = {1, 1, 1};  // along D, H, W, in millimetres
  Affine affine = {};
  std::string orientation;  // "RAS": what D, H, W point to; empty where the file does not say
  std::array<int64_t, 3> origin = {};  // of a region: where in the whole it starts, for messages

  int64_t values() const { return channels * size.voxels(); }
  std::array<int64_t, 4> sides() const { return {channels, size.depth, size.height, size.width}; }
};

// Throws Error where a region is empty or not inside of `whole`.
void check_inside(const VolumeRegion& region, const VolumeSize& whole, const std::string& source);

// `stored` as seen through a region of itself, which is inside: the same numbers, fewer of them.
void narrow(StoredVolume& stored, const VolumeRegion& region);

// The product of sizes, or -1: one is below 1, or the product is above `most`.
int64_t checked_voxels(std::span<const int64_t> sizes, int64_t most = kMaxVolumeValues);

// Strides of sizes that lie in C order (last one fastest).
std::vector<int64_t> row_major_strides(std::span<const int64_t> sizes);

// Swaps and flips D, H, W to the closest right-anterior-superior order by the affine, as nibabel's
// as_closest_canonical does; nothing is resampled.
void make_canonical(StoredVolume& stored);

// Writes stored.values() floats to `out`: [C, D, H, W]. Throws DataError where a value is not
// finite, naming how many and the first's position.
void convert_values(const StoredVolume& stored, float* out);

// The whole of `stored`; keeps the buffer of `volume`.
void convert_volume(const StoredVolume& stored, Volume& volume);

// How the numbers of a mask become classes.
struct LabelRule {
  int64_t offset = 0;                       // class = number - offset
  int64_t num_classes = 0;                  // classes are below this
  std::vector<int64_t> ignore_values = {};  // numbers (before the offset) that become -1
};

// One channel. Throws DataError: a number that is not whole or whose class is out of range, with
// its position; several channels.
void convert_labels(const StoredVolume& stored, const LabelRule& rule, LabelMap& mask);

struct ValueRange {
  float low = 0;
  float high = 0;
  bool operator==(const ValueRange&) const = default;
};

ValueRange range_of(const Volume& volume);

// (x - low) / (high - low), in float as UCF-VIT does; where both are one number 0, where upstream
// gets NaN.
void scale_to_unit_range(const ValueRange& range, Volume& volume);

}  // namespace fovea::data
