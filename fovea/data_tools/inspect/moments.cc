#include "fovea/data_tools/inspect/moments.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/simd.h"
#include "fovea/data/image/gray_and_colour.h"

namespace fovea::data {
namespace {

// Squares of this many bytes fit in 32 bits.
constexpr int64_t kPiece = 1 << 16;
constexpr size_t kLanes = 8;

// values[i * step] for i < count <= kPiece.
FOVEA_SIMD void sum_bytes(const uint8_t* values, int64_t count, int64_t step, ByteSums& sums) {
  uint32_t sum = 0, squares = 0;
  uint32_t least = 255, most = 0;
#pragma omp simd reduction(+ : sum, squares) reduction(min : least) reduction(max : most)
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t value = values[i * step];
    sum += value;
    squares += value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  sums.add({static_cast<uint64_t>(count), sum, squares, static_cast<uint8_t>(least),
            static_cast<uint8_t>(most)});
}

void sum_row(const uint8_t* row, int64_t count, int64_t step, ByteSums& sums) {
  for (int64_t i = 0; i < count; i += kPiece) {
    sum_bytes(row + i * step, std::min(kPiece, count - i), step, sums);
  }
}

// Lanes keep the order of the sums fixed and the additions apart.
template <class Value>
double sum_of(const float* values, int64_t count, Value&& value) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kLanes) <= count; i += static_cast<int64_t>(kLanes)) {
    for (size_t k = 0; k < kLanes; ++k) lanes[k] += value(values[i + static_cast<int64_t>(k)]);
  }
  for (; i < count; ++i) lanes[0] += value(values[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

ChannelMoments moments_of_bytes(const ByteSums& sums) {
  if (sums.count == 0) return {};
  const auto count = static_cast<long double>(sums.count);
  const auto sum = static_cast<long double>(sums.sum);
  const long double mean = sum / count;
  const long double variance = static_cast<long double>(sums.squares) / count - mean * mean;
  return {static_cast<double>(mean / 255),
          static_cast<double>(std::sqrt(std::max(variance, 0.0L)) / 255), sums.least / 255.0,
          sums.most / 255.0};
}

}  // namespace

void ByteSums::add(const ByteSums& other) {
  count += other.count;
  sum += other.sum;
  squares += other.squares;
  least = std::min(least, other.least);
  most = std::max(most, other.most);
}

void ImageSums::add(const ImageView& image, bool with_luma) {
  auto& channels = by_channels[image.channels];
  channels.resize(static_cast<size_t>(image.channels));
  std::vector<uint8_t> gray;
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t c = 0; c < image.channels; ++c) {
      sum_row(image.row(y) + c, image.width, image.channels, channels[static_cast<size_t>(c)]);
    }
    if (!with_luma || image.channels != 3) continue;
    gray.resize(static_cast<size_t>(image.width));
    rgb_to_gray(image.row(y), image.width, gray.data());
    sum_row(gray.data(), image.width, 1, luma);
  }
}

void ImageSums::add(const ImageSums& other) {
  for (const auto& [channels, sums] : other.by_channels) {
    auto& mine = by_channels[channels];
    mine.resize(sums.size());
    for (size_t c = 0; c < sums.size(); ++c) mine[c].add(sums[c]);
  }
  luma.add(other.luma);
}

std::vector<ChannelMoments> ImageSums::moments(int64_t channels) const {
  if (by_channels.empty()) return {};
  if (channels == 0) channels = by_channels.rbegin()->first;
  std::vector<ByteSums> wanted(static_cast<size_t>(channels));
  for (const auto& [stored, sums] : by_channels) {
    for (size_t c = 0; c < wanted.size(); ++c) {
      if (stored == channels) {
        wanted[c].add(sums[c]);
      } else if (stored == 1 && channels == 3) {
        wanted[c].add(sums[0]);
      } else if (stored == 3 && channels == 1) {
        wanted[c].add(luma);
      }
    }
  }
  std::vector<ChannelMoments> moments;
  for (const ByteSums& sums : wanted) moments.push_back(moments_of_bytes(sums));
  return moments;
}

void FloatMoments::add(const FloatMoments& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const double total = count + other.count;
  const double difference = other.mean - mean;
  deviations += other.deviations + difference * difference * count * other.count / total;
  mean += difference * other.count / total;
  count = total;
  least = std::min(least, other.least);
  most = std::max(most, other.most);
}

ChannelMoments FloatMoments::moments() const {
  if (count == 0) return {};
  return {mean, std::sqrt(deviations / count), least, most};
}

std::vector<FloatMoments> moments_of(const Volume& volume) {
  std::vector<FloatMoments> result;
  const int64_t voxels = volume.size.voxels();
  for (int64_t c = 0; c < volume.channels; ++c) {
    const float* values = volume.values.data() + c * voxels;
    FloatMoments moments;
    moments.count = static_cast<double>(voxels);
    moments.mean =
        sum_of(values, voxels, [](float v) { return static_cast<double>(v); }) / moments.count;
    moments.deviations = sum_of(values, voxels, [&](float v) {
      const double deviation = static_cast<double>(v) - moments.mean;
      return deviation * deviation;
    });
    const auto [least, most] = std::minmax_element(values, values + voxels);
    moments.least = *least;
    moments.most = *most;
    result.push_back(moments);
  }
  return result;
}

}  // namespace fovea::data
