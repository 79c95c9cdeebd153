#include "fovea/data/adaptive/detail.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/detail_values.h"

namespace fovea::data {
namespace {

using patching::blur_size;
using patching::canny_options;
using patching::EdgeVoxel;

constexpr uint32_t kNone = 0xffffffff;
constexpr int64_t kMostCountedChannels = 31;  // what IntegralVolume takes as a byte

}  // namespace

DetailDraw draw_detail(const AdaptivePatchingConfig& config, bool is_image, RandomStream& random) {
  const auto& limits = config.canny_thresholds;
  DetailDraw draw;
  draw.smoothing = config.smoothing[random.below(static_cast<uint32_t>(config.smoothing.size()))];
  draw.canny_low = limits[0] + random.below(static_cast<uint32_t>(limits[1] - limits[0]));
  draw.is_noise = is_image && draw.smoothing == 0 && config.has_noise();
  return draw;
}

DetailDraw middle_detail(const AdaptivePatchingConfig& config) {
  const auto& limits = config.canny_thresholds;
  return {config.smoothing[config.smoothing.size() / 2], (limits[0] + limits[1]) / 2, false};
}

void DetailMap::build(const Volume& volume, int64_t channel, const AdaptivePatchingConfig& config,
                      const DetailDraw& draw, RandomStream* random) {
  const int64_t first = channel < 0 ? 0 : channel;
  const int64_t last = channel < 0 ? volume.channels : channel + 1;
  if (volume.size.depth == 1) {
    flatten(volume, first, last, config, blur_size(draw));
    DetailDraw rest = draw;
    rest.smoothing = 0;
    build(ImageView(image_), config, rest, random);
    return;
  }
  size_ = volume.size;
  const auto voxels = static_cast<size_t>(size_.voxels());
  if (config.criterion == "variance") {
    bytes_.resize(voxels * static_cast<size_t>(last - first));
    for (int64_t c = first; c < last; ++c) {
      patching::to_bytes(volume.values.data() + c * size_.voxels(), size_.voxels(),
                         config.value_range[0], config.value_range[1],
                         bytes_.data() + (c - first) * size_.voxels());
    }
    build_variance(last - first);
  } else if (config.criterion == "gradient") {
    kind_ = Kind::kGradients;
    bytes_.resize(voxels);
    gradients_.assign(voxels, 0);
    for (int64_t c = first; c < last; ++c) {
      smooth_channel(volume, c, config, draw.smoothing, bytes_.data());
      patching::sobel_magnitude(bytes_.data(), size_, gradients_.data(), sobel_rows_);
    }
    weight_sums_.build(gradients_.data(), size_);
  } else {
    build_volume_edges(volume, first, last, config, draw);
  }
}

int64_t DetailMap::value(const Box& box) const {
  switch (kind_) {
    case Kind::kCounts:
      return count_sums_.sum(box);
    case Kind::kGradients:
      return static_cast<int64_t>(weight_sums_.sum(box));
    case Kind::kNoise:
      return patching::noise_value(weight_sums_.sum(box));
    case Kind::kVariance:
      break;
  }
  patching::SquaredDeviation deviation(weight_sums_.sum(box), box.voxels());
  for (const auto& sums : channel_sums_) deviation.add_channel(sums.sum(box));
  return deviation.value();
}

void DetailMap::build(const ImageView& image, const AdaptivePatchingConfig& config,
                      const DetailDraw& draw, RandomStream* random) {
  size_ = {1, image.height, image.width};
  const auto pixels = static_cast<size_t>(size_.voxels());
  if (draw.is_noise) {
    build_noise(random);
  } else if (config.criterion == "canny") {
    kind_ = Kind::kCounts;
    counts_.assign(pixels, 0);
    const auto bits = patching::canny(image, canny_options(blur_size(draw), draw), canny_);
    const int64_t words = (image.width + 63) / 64;
    for (int64_t y = 0; y < image.height; ++y) {
      patching::add_bits(bits.data() + y * words, image.width, counts_.data() + y * image.width);
    }
    count_sums_.build(counts_.data(), size_);
  } else if (config.criterion == "gradient") {
    kind_ = Kind::kGradients;
    gradients_.resize(pixels);
    patching::gradient_magnitude(image, blur_size(draw), gradients_.data(), canny_);
    weight_sums_.build(gradients_.data(), size_);
  } else if (config.criterion == "variance") {
    bytes_.resize(pixels * static_cast<size_t>(image.channels));
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t i = 0; i < image.width * image.channels; ++i) {
        const int64_t at = (i % image.channels) * size_.voxels() + y * image.width;
        bytes_[static_cast<size_t>(at + i / image.channels)] = image.row(y)[i];
      }
    }
    build_variance(image.channels);
  } else {
    patching::fail_for_images(config);
  }
}

void DetailMap::build_noise(RandomStream* random) {
  FOVEA_CHECK(random != nullptr, "a tree over noise, but no random stream was given");
  kind_ = Kind::kNoise;
  gradients_.resize(static_cast<size_t>(size_.voxels()));
  for (uint16_t& value : gradients_) value = patching::draw_noise(*random);
  weight_sums_.build(gradients_.data(), size_);
}

void DetailMap::build_variance(int64_t channels) {
  kind_ = Kind::kVariance;
  const auto voxels = static_cast<size_t>(size_.voxels());
  squares_.assign(voxels, 0);
  gradients_.resize(voxels);
  channel_sums_.resize(static_cast<size_t>(channels));
  const uint8_t* bytes = bytes_.data();
  for (auto& sums : channel_sums_) {
    for (size_t i = 0; i < voxels; ++i) {
      squares_[i] += uint32_t{bytes[i]} * bytes[i];
      gradients_[i] = bytes[i];
    }
    sums.build(gradients_.data(), size_);
    bytes += voxels;
  }
  weight_sums_.build(squares_.data(), size_);
}

void DetailMap::smooth_channel(const Volume& volume, int64_t channel,
                               const AdaptivePatchingConfig& config, int64_t sigma,
                               uint8_t* bytes) {
  const int64_t voxels = size_.voxels();
  patching::gaussian_smooth({volume.values.data() + channel * voxels, static_cast<size_t>(voxels)},
                            size_, sigma, smooth_, smoothing_);
  patching::to_bytes(smooth_.data(), voxels, config.value_range[0], config.value_range[1], bytes);
}

void DetailMap::flatten(const Volume& volume, int64_t first, int64_t last,
                        const AdaptivePatchingConfig& config, int64_t blur_size) {
  const ImageSize size = {volume.size.height, volume.size.width};
  const int64_t pixels = volume.size.voxels();
  const int64_t channels = last - first;
  reshape(image_, size, channels);
  bytes_.resize(static_cast<size_t>(pixels));
  for (int64_t c = 0; c < channels; ++c) {
    const float* values = volume.values.data() + (first + c) * pixels;
    patching::gaussian_blur({values, static_cast<size_t>(pixels)}, size.height, size.width,
                            blur_size, smooth_, smoothing_);
    patching::to_bytes(smooth_.data(), pixels, config.value_range[0], config.value_range[1],
                       bytes_.data());
    for (int64_t i = 0; i < pixels; ++i) {
      image_.pixels[static_cast<size_t>(i * channels + c)] = bytes_[static_cast<size_t>(i)];
    }
  }
}

void DetailMap::build_volume_edges(const Volume& volume, int64_t first, int64_t last,
                                   const AdaptivePatchingConfig& config, const DetailDraw& draw) {
  if (last - first > kMostCountedChannels) {
    fail<ConfigError>(
        "adaptive patching: criterion={} on {} channels; expected at most {}; choose gradient or "
        "variance, or separate_channels",
        config.criterion, last - first, kMostCountedChannels);
  }
  const auto voxels = static_cast<size_t>(size_.voxels());
  const bool has_directions = config.criterion == "canny_direction";
  kind_ = Kind::kCounts;
  counts_.assign(voxels, 0);
  bytes_.resize(voxels);
  edges_.clear();
  if (has_directions && last - first > 1) edge_at_.assign(voxels, kNone);
  const int64_t words = (size_.width + 63) / 64;
  ImageView slice;
  slice.height = size_.height;
  slice.width = slice.row_stride = size_.width;
  slice.channels = 1;
  for (int64_t c = first; c < last; ++c) {
    smooth_channel(volume, c, config, draw.smoothing, bytes_.data());
    for (int64_t z = 0; z < size_.depth; ++z) {
      slice.pixels = bytes_.data() + z * size_.height * size_.width;
      const auto bits = patching::canny(slice, canny_options(1, draw), canny_);
      for (int64_t y = 0; y < size_.height; ++y) {
        patching::add_bits(bits.data() + y * words, size_.width,
                           counts_.data() + (z * size_.height + y) * size_.width);
      }
      if (has_directions) note_directions(bits.data(), z, last - first == 1);
    }
  }
  if (has_directions) {
    patching::keep_upper_directions(edges_, last - first == 1 ? smooth_.data() : nullptr, size_,
                                    counts_);
  }
  count_sums_.build(counts_.data(), size_);
}

void DetailMap::note_directions(const uint64_t* bits, int64_t z, bool is_only_channel) {
  const int64_t words = (size_.width + 63) / 64;
  auto& edges = is_only_channel ? edges_ : slice_edges_;
  if (!is_only_channel) edges.clear();
  for (int64_t y = 0; y < size_.height; ++y) {
    patching::append_directions(smooth_.data(), size_, z, y, bits + y * words, directions_, edges);
  }
  if (is_only_channel) return;
  for (const EdgeVoxel& edge : slice_edges_) {
    uint32_t& place = edge_at_[edge.index];
    if (place == kNone) {
      place = static_cast<uint32_t>(edges_.size());
      edges_.push_back(edge);
      continue;
    }
    EdgeVoxel& other = edges_[place];  // of several channels the steepest one gives the direction
    if (std::hypot(edge.dx, edge.dy) > std::hypot(other.dx, other.dy)) other = edge;
  }
}

}  // namespace fovea::data
