#include "fovea/data/adaptive/detail.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

using patching::CannyOptions;
using patching::EdgeVoxel;
using patching::ImageRows;

constexpr int64_t kThresholdStep = 50;  // from the lower threshold to the upper one
constexpr uint32_t kNone = 0xffffffff;
constexpr int64_t kMostCountedChannels = 255;  // in a byte
constexpr size_t kMostKeptWords = size_t{1}
                                  << 23;  // 64 MiB: what a thread keeps for the next image

CannyOptions canny_options(int64_t blur_size, const DetailDraw& draw) {
  return {blur_size, draw.canny_low, draw.canny_low + kThresholdStep};
}

// Sums of a cell stay below 2^32: squares of bytes of all channels.
int64_t cell_side(const AdaptivePatchingConfig& config, int64_t channels, bool is_volume) {
  constexpr int64_t kLargestCell = 16;
  int64_t side = std::min(config.min_leaf, kLargestCell);
  const auto numbers = [&] { return side * side * (is_volume ? side : 1) * channels; };
  while (side > 1 && numbers() >= int64_t{1} << 16) side /= 2;
  return side;
}

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

int64_t detail_bytes(ImageSize size, int64_t channels, const AdaptivePatchingConfig& config,
                     bool is_noise) {
  if (config.criterion == "canny" && !is_noise) {
    return 2 * size.height * ((size.width + 63) / 64) * 8;
  }
  const auto count = [&](int64_t side) {
    const auto cuts = patching::cuts_of(side, cell_side(config, channels, false));
    return static_cast<int64_t>(cuts.size()) - 1;
  };
  const int64_t tables = config.criterion == "variance" && !is_noise ? channels + 1 : 1;
  return tables * 4 * count(size.height) * count(size.width);
}

void DetailMap::build(const patching::FieldRows& image, const AdaptivePatchingConfig& config,
                      const DetailDraw& draw, RandomStream* random) {
  patching::FieldBytes bytes(image, draw.blur_size(), config.value_range[0], config.value_range[1],
                             field_);
  build(bytes.rows(), /*blur_size=*/1, config, draw, random);
}

void DetailMap::build(const ImageRows& image, int64_t blur, const AdaptivePatchingConfig& config,
                      const DetailDraw& draw, RandomStream* random) {
  const VolumeSize size = {1, image.height, image.width};
  kind_ = Kind::kSum;
  has_bits_ = false;
  if (draw.is_noise) {
    FOVEA_CHECK(random != nullptr, "a tree over noise, but no random stream was given");
    kind_ = Kind::kNoise;
    start_cells(size, image.channels, config, 1);
    add_noise(image, *random);
  } else if (config.criterion == "canny") {
    has_bits_ = true;
    const auto bits = patching::canny(image, canny_options(blur, draw), canny_);
    if (bits.size() > kMostKeptWords) canny_.candidates = {};
    edges_.build(bits.data(), image.height, image.width);
    return;
  } else if (config.criterion == "gradient") {
    start_cells(size, image.channels, config, 1);
    const auto take = [this](int64_t y, const int16_t* row) { cells_[0].add_row(0, y, row, 1); };
    patching::gradient_magnitude(image, blur, take, canny_);
  } else if (config.criterion == "variance") {
    kind_ = Kind::kVariance;
    start_cells(size, image.channels, config, static_cast<size_t>(image.channels) + 1);
    add_squares(image, 0);
  } else {
    fail<ConfigError>(
        "adaptive patching: criterion={} on an image; it is for volumes, choose canny, gradient or "
        "variance",
        config.criterion);
  }
  finish_cells();
}

void DetailMap::start_cells(VolumeSize size, int64_t channels, const AdaptivePatchingConfig& config,
                            size_t count) {
  num_tables_ = count;
  if (cells_.size() < count) cells_.resize(count);
  const int64_t side = cell_side(config, channels, size.depth > 1);
  for (size_t table = 0; table < count; ++table) cells_[table].start(size, side);
  row_.resize(static_cast<size_t>(size.width));
}

void DetailMap::finish_cells() {
  for (size_t table = 0; table < num_tables_; ++table) cells_[table].finish();
}

// Noise of a pixel in parts of 2^16.
void DetailMap::add_noise(const ImageRows& image, RandomStream& random) {
  for (int64_t y = 0; y < image.height; ++y) {
    for (uint32_t& value : row_) value = static_cast<uint16_t>(random.next_word() >> 16);
    cells_[0].add_row(0, y, row_.data(), 1);
  }
}

void DetailMap::add_squares(const ImageRows& slice, int64_t z) {
  for (int64_t y = 0; y < slice.height; ++y) {
    const uint8_t* row = slice.row(y);
    std::fill(row_.begin(), row_.end(), 0u);
    for (int64_t c = 0; c < slice.channels; ++c) {
      for (int64_t x = 0; x < slice.width; ++x) {
        const uint32_t value = row[x * slice.channels + c];
        row_[static_cast<size_t>(x)] += value * value;
      }
      cells_[static_cast<size_t>(c + 1)].add_row(z, y, row + c, slice.channels);
    }
    cells_[0].add_row(z, y, row_.data(), 1);
  }
}

template <class Value>
void DetailMap::add_volume(const std::vector<Value>& values) {
  const Value* row = values.data();
  for (int64_t z = 0; z < size_.depth; ++z) {
    for (int64_t y = 0; y < size_.height; ++y, row += size_.width) {
      cells_[0].add_row(z, y, row, 1);
    }
  }
}

void DetailMap::build(const VolumeValues& volume, int64_t channel,
                      const AdaptivePatchingConfig& config, const DetailDraw& draw,
                      RandomStream* random) {
  const int64_t first = channel < 0 ? 0 : channel;
  const int64_t last = channel < 0 ? volume.channels : channel + 1;
  size_ = volume.size;
  int64_t z = 0;
  const auto row = [&](int64_t y, int64_t c) {
    return patching::FieldRow{volume.channel(first + c) + (z * size_.height + y) * size_.width, 1};
  };
  const patching::FieldRows slice = {size_.height, size_.width, last - first, std::ref(row)};
  if (size_.depth == 1) return build(slice, config, draw, random);
  kind_ = Kind::kSum;
  has_bits_ = false;
  if (config.criterion == "variance") {
    kind_ = Kind::kVariance;
    start_cells(size_, last - first, config, static_cast<size_t>(last - first) + 1);
    for (; z < size_.depth; ++z) {
      patching::FieldBytes bytes(slice, 1, config.value_range[0], config.value_range[1], field_);
      add_squares(bytes.rows(), z);
    }
  } else if (config.criterion == "gradient") {
    gradients_.assign(static_cast<size_t>(size_.voxels()), 0);
    for (int64_t c = first; c < last; ++c) {
      smooth_channel(volume, c, config, draw.smoothing);
      patching::sobel_magnitude(bytes_.data(), size_, gradients_.data(), sobel_rows_);
    }
    start_cells(size_, 1, config, 1);
    add_volume(gradients_);
  } else {
    find_volume_edges(volume, first, last, config, draw);
    start_cells(size_, 1, config, 1);
    add_volume(counts_);
  }
  finish_cells();
}

uint64_t DetailMap::sum(size_t table, const TreeBox& box) const {
  return has_bits_ ? edges_.sum(box) : cells_[table].sum(box);
}

// Of noise: uniform in [0, 1), summed, over 255, rounded down, which is UCF-VIT's. Of the variance
// the squared deviation from the mean, summed over channels.
int64_t DetailMap::value(const TreeBox& box) const {
  const uint64_t all = sum(0, box);
  if (kind_ == Kind::kSum) return static_cast<int64_t>(all);
  if (kind_ == Kind::kNoise) return static_cast<int64_t>(all / (255 * 65536));
  auto rest = static_cast<double>(all);
  for (size_t table = 1; table < num_tables_; ++table) {
    const auto values = static_cast<double>(sum(table, box));
    rest -= values * values / static_cast<double>(box.voxels());
  }
  return static_cast<int64_t>(std::max(rest, 0.0));
}

void DetailMap::smooth_channel(const VolumeValues& volume, int64_t channel,
                               const AdaptivePatchingConfig& config, int64_t sigma) {
  const int64_t voxels = size_.voxels();
  patching::gaussian_smooth({volume.channel(channel), static_cast<size_t>(voxels)}, size_, sigma,
                            smooth_, smoothing_);
  bytes_.resize(static_cast<size_t>(voxels));
  patching::to_bytes(smooth_.data(), voxels, config.value_range[0], config.value_range[1],
                     bytes_.data());
}

void DetailMap::find_volume_edges(const VolumeValues& volume, int64_t first, int64_t last,
                                  const AdaptivePatchingConfig& config, const DetailDraw& draw) {
  if (last - first > kMostCountedChannels) {
    fail<ConfigError>(
        "adaptive patching: criterion={} on {} channels; expected at most {}; choose gradient or "
        "variance, or separate_channels",
        config.criterion, last - first, kMostCountedChannels);
  }
  const auto voxels = static_cast<size_t>(size_.voxels());
  const bool has_directions = config.criterion == "canny_direction";
  counts_.assign(voxels, 0);
  edge_voxels_.clear();
  if (has_directions && last - first > 1) edge_at_.assign(voxels, kNone);
  const int64_t words = (size_.width + 63) / 64;
  ImageView slice;
  slice.height = size_.height;
  slice.width = slice.row_stride = size_.width;
  slice.channels = 1;
  for (int64_t c = first; c < last; ++c) {
    smooth_channel(volume, c, config, draw.smoothing);
    for (int64_t z = 0; z < size_.depth; ++z) {
      slice.pixels = bytes_.data() + z * size_.height * size_.width;
      const auto bits = patching::canny(patching::rows_of(slice), canny_options(1, draw), canny_);
      for (int64_t y = 0; y < size_.height; ++y) {
        patching::add_bits(bits.data() + y * words, size_.width,
                           counts_.data() + (z * size_.height + y) * size_.width);
      }
      if (has_directions) note_directions(bits.data(), z, last - first == 1);
    }
  }
  if (has_directions) {
    patching::keep_upper_directions(edge_voxels_, last - first == 1 ? smooth_.data() : nullptr,
                                    size_, counts_);
  }
}

void DetailMap::note_directions(const uint64_t* bits, int64_t z, bool is_only_channel) {
  const int64_t words = (size_.width + 63) / 64;
  auto& edges = is_only_channel ? edge_voxels_ : slice_edges_;
  if (!is_only_channel) edges.clear();
  for (int64_t y = 0; y < size_.height; ++y) {
    patching::append_directions(smooth_.data(), size_, z, y, bits + y * words, directions_, edges);
  }
  if (is_only_channel) return;
  for (const EdgeVoxel& edge : slice_edges_) {
    uint32_t& place = edge_at_[edge.index];
    if (place == kNone) {
      place = static_cast<uint32_t>(edge_voxels_.size());
      edge_voxels_.push_back(edge);
      continue;
    }
    EdgeVoxel& other =
        edge_voxels_[place];  // of several channels the steepest one gives the direction
    if (std::hypot(edge.dx, edge.dy) > std::hypot(other.dx, other.dy)) other = edge;
  }
}

}  // namespace fovea::data
