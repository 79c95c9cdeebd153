#include "fovea/data/tiles/tiled.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/log.h"

namespace fovea::data {
namespace {

constexpr int64_t kCachedInOrder = 2;  // also of images, whatever their order
constexpr int64_t kCachedBytes = int64_t{1} << 30;
constexpr int64_t kLeastCached = 4, kMostCached = 64;

// [samples]: tiles of each and all before it.
std::vector<int64_t> tile_ends(const Dataset& source, const std::vector<VolumeSize>& sizes,
                               const TilingConfig& config) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (const VolumeSize& size : sizes) {
    try {
      ends.push_back(end += Tiling(config, size).count());
    } catch (const DataError& error) {
      throw DataError(named_message(source, static_cast<int64_t>(ends.size()), error));
    }
  }
  return ends;
}

bool has_fewer_voxels(const VolumeSize& a, const VolumeSize& b) { return a.voxels() < b.voxels(); }

int64_t bytes_decoded(const VolumeSize& size, int64_t channels) {
  return size.voxels() * channels * static_cast<int64_t>(sizeof(float));  // of a mask: int32_t
}

// Of the first volume that says so; one that cannot be read is a bad sample when its tiles come.
int64_t known_channels(const Dataset& volumes) {
  for (int64_t i = 0; i < volumes.size(); ++i) {
    try {
      return volumes.channels_of(i);
    } catch (const DataError&) {
    }
  }
  return 1;
}

}  // namespace

int64_t default_cached_volumes(const VolumeSize& largest, int64_t channels) {
  const int64_t bytes = std::max<int64_t>(bytes_decoded(largest, channels), 1);
  return std::clamp(kCachedBytes / bytes, kLeastCached, kMostCached);
}

TiledDataset::TiledDataset(std::shared_ptr<const Dataset> source, const TilingConfig& config,
                           TileReading reading)
    : source_(std::move(source)),
      config_(config),
      sizes_(source_->sizes(0, source_->size())),
      ends_(tile_ends(*source_, sizes_, config)),
      reading_(reading),
      cached_(config.cached_volumes.value_or(kCachedInOrder)) {
  const bool has_volumes = form() == SampleForm::kVolume;
  if (has_volumes && reading == TileReading::kInOrder) cached_ = std::min(cached_, kCachedInOrder);
  if (has_volumes && reading == TileReading::kShuffled) {
    VolumeSize largest;
    for (const VolumeSize& size : sizes_) largest = std::max(largest, size, has_fewer_voxels);
    const int64_t channels = known_channels(*source_) + (has_masks() ? 1 : 0);
    decoded_bytes_ = bytes_decoded(largest, channels);
    cached_ = config.cached_volumes.value_or(default_cached_volumes(largest, channels));
  }
  cache_.emplace(cached_);
}

int64_t TiledDataset::sample_of(int64_t index) const {
  FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
  return std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
}

int64_t TiledDataset::first_tile(int64_t sample) const {
  return sample == 0 ? 0 : ends_.at(static_cast<size_t>(sample - 1));
}

int64_t TiledDataset::num_tiles(int64_t sample) const {
  return ends_.at(static_cast<size_t>(sample)) - first_tile(sample);
}

Tiling TiledDataset::tiling(int64_t sample) const {
  return Tiling(config_, sizes_.at(static_cast<size_t>(sample)));
}

void TiledDataset::read(int64_t index, Sample& sample) const {
  const int64_t whole_index = sample_of(index);
  const Tile tile = tiling(whole_index).tile(index - first_tile(whole_index));
  if (tile.valid.voxels() > 0 && read_by_region(whole_index, tile, sample)) return;
  const auto whole = cache_->get(whole_index, [&] {
    auto decoded = std::make_shared<Sample>();
    read_decoded(*source_, whole_index, *decoded);
    return decoded;
  });
  check_whole(*source_, whole_index, whole->size(),
              {.start = {}, .size = {}, .whole = sizes_[static_cast<size_t>(whole_index)]});
  extract_tile(*whole, tile, sample);
}

bool TiledDataset::read_by_region(int64_t whole, const Tile& tile, Sample& sample) const {
  const VolumeRegion region{tile.start, tile.valid, sizes_[static_cast<size_t>(whole)]};
  if (!tile.is_padded()) return source_->read_region(whole, region, sample);
  Sample valid;
  if (!source_->read_region(whole, region, valid)) return false;
  extract_tile(valid, {.start = {}, .size = tile.size, .valid = tile.valid}, sample);
  return true;
}

bool TiledDataset::has_windows() const {
  return reading_ == TileReading::kShuffled && form() == SampleForm::kVolume && size() > 0;
}

int64_t TiledDataset::window() const { return std::max<int64_t>(cached_ / 2, 1); }

TileWindows TiledDataset::tile_windows() const {
  return has_windows() ? TileWindows{ends_, window()} : TileWindows{};
}

std::string TiledDataset::describe_cache() const {
  if (!has_windows()) return {};
  const double mebibyte = 1 << 20;
  return fmt::format(
      "tiles: mixed from {} volumes at a time, for which {} of {:.1f} MiB are kept decoded, "
      "{:.1f} MiB in each process; set cached_volumes of the tiling for more or less",
      window(), cached_, static_cast<double>(decoded_bytes_) / mebibyte,
      static_cast<double>(cached_ * decoded_bytes_) / mebibyte);
}

VolumeSize TiledDataset::size_of(int64_t index) const {
  return tiling(sample_of(index)).tile_size();
}

std::string TiledDataset::describe(int64_t index) const {
  const int64_t sample = sample_of(index);
  return fmt::format("{} tile {} of {}", source_->describe(sample), index - first_tile(sample),
                     num_tiles(sample));
}

std::shared_ptr<const Dataset> cut_into_tiles(std::shared_ptr<const Dataset> source,
                                              const TilingConfig& config, TileReading reading,
                                              const std::string& set) {
  const auto tiles = std::make_shared<TiledDataset>(std::move(source), config, reading);
  const std::string kept = tiles->describe_cache();
  if (!kept.empty()) log_info(set.empty() ? kept : set + ": " + kept);
  return tiles;
}

}  // namespace fovea::data
