// Volumes for the tests of volume transforms, MONAI's goldens, and the one place of their
// tolerances.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "fovea/data/transforms/volume/volume_transform.h"
#include "fovea/data/transforms/volume/volume_view.h"
#include "tests/data/support.h"

namespace fovea::data::testing {

// Largest difference allowed, relative to the largest value: sums of a few float32 products.
constexpr double kVolumeTolerance = 1e-5;
// For random draws, as a share of their range or deviation: 6 standard errors of 40,000 draws.
constexpr double kDrawTolerance = 0.03;
// Of a normal deviate: polynomials of floats for log, sine and cosine.
constexpr double kDeviateTolerance = 4e-6;
// Of the moments of a million deviates: ten standard errors.
constexpr double kMomentTolerance = 0.01;
// What a smoothing kernel leaves out beyond four standard deviations.
constexpr double kKernelTail = 1e-4;

inline const GoldenArray& volume_golden(const std::string& name) {
  return golden(name, "data_volume_transforms");
}

inline std::vector<std::vector<std::string>> volume_golden_names(const std::string& prefix) {
  return golden_names(prefix, "data_volume_transforms");
}

// The numbers of "2x3x4".
inline std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    numbers.push_back(std::stod(text.substr(at, end - at)));
    at = end + 1;
  }
  return numbers;
}

inline std::vector<int64_t> integers_in(const std::string& text) {
  const auto numbers = numbers_in(text);
  return {numbers.begin(), numbers.end()};
}

// "in.<name>", [C, D, H, W].
inline Volume golden_volume(const std::string& name) {
  const auto& array = volume_golden("in." + name);
  const auto& shape = array.shape;
  return {shape.at(0), {shape.at(1), shape.at(2), shape.at(3)}, {1, 1, 1}, array.values<float>()};
}

inline std::vector<int32_t> golden_classes(const std::string& name) {
  const auto bytes = volume_golden(name).values<int8_t>();
  return {bytes.begin(), bytes.end()};
}

inline LabelMap golden_mask() {
  const auto& shape = volume_golden("in.mask").shape;
  return {{shape.at(0), shape.at(1), shape.at(2)}, golden_classes("in.mask")};
}

// The sample of a volume, with MONAI's mask where the sizes agree.
inline Sample golden_sample(const std::string& name) {
  Sample sample;
  sample.become<Volume>() = golden_volume(name);
  if (golden_mask().size == sample.volume().size) sample.mask = golden_mask();
  return sample;
}

// A sample as an item, and what comes out of it.
struct VolumeBench {
  explicit VolumeBench(const Sample& given) : sample(given) {
    item.values = FieldView<float>::dense(sample.volume().values.data(), sample.volume().channels,
                                          extent_of(sample.volume().size));
    if (!sample.mask.classes.empty()) {
      item.classes =
          FieldView<int32_t>::dense(sample.mask.classes.data(), 1, extent_of(sample.mask.size));
    }
    item.spacing = sample.volume().spacing;
  }
  VolumeBench(const VolumeBench&) = delete;

  template <class Config>
  VolumeBench& apply(const Config& config, uint64_t key = 1) {
    RandomStream random(philox_key(key, "test"), 0);
    VolumeTransformConfig(config)->apply(item, random, scratch);
    return *this;
  }
  std::vector<float> values() const {
    std::vector<float> out(static_cast<size_t>(item.values.channels * voxels_of(item.values.size)));
    copy_voxels(item.values, out.data());
    return out;
  }
  std::vector<int32_t> classes() const {
    std::vector<int32_t> out(static_cast<size_t>(voxels_of(item.classes.size)));
    copy_voxels(item.classes, out.data());
    return out;
  }
  std::vector<int64_t> shape() const {
    const Extent& size = item.values.size;
    return {item.values.channels, size[0], size[1], size[2]};
  }

  Sample sample;
  VolumeItem item;
  VolumeScratch scratch;
};

// Bit for bit.
inline void expect_equals(const VolumeBench& bench, const std::string& name) {
  SCOPED_TRACE(name);
  EXPECT_EQ(bench.shape(), volume_golden(name).shape);
  EXPECT_EQ(bench.values(), volume_golden(name).values<float>());
}

// Within kVolumeTolerance of the largest value.
inline void expect_close(const VolumeBench& bench, const std::string& name) {
  SCOPED_TRACE(name);
  const auto values = bench.values();
  const auto expected = volume_golden(name).values<float>();
  ASSERT_EQ(bench.shape(), volume_golden(name).shape);
  double largest = 0, difference = 0;
  size_t at = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(expected[i])));
    const double here = std::abs(static_cast<double>(values[i]) - expected[i]);
    if (!(here <= difference)) {
      difference = here;
      at = i;
    }
  }
  EXPECT_LE(difference, kVolumeTolerance * largest)
      << "at " << at << ": " << values[at] << ", MONAI has " << expected[at];
}

// Three channels that hold the place of each voxel: depth, height, width.
inline Volume place_volume(const VolumeSize& size) {
  Volume volume = {3, size, {1, 1, 1}, {}};
  for (size_t axis = 0; axis < 3; ++axis) {
    for (int64_t z = 0; z < size.depth; ++z) {
      for (int64_t y = 0; y < size.height; ++y) {
        for (int64_t x = 0; x < size.width; ++x) {
          const std::array<int64_t, 3> place = {z, y, x};
          volume.values.push_back(static_cast<float>(place[axis]));
        }
      }
    }
  }
  return volume;
}

}  // namespace fovea::data::testing
