// A data set of tiles: each sample of another one cut up, tile after tile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/latest_used.h"
#include "fovea/data/tiles/tiling.h"

namespace fovea::data {

// Volumes of this size and so many channels, a mask counting as one, that are kept decoded where
// the recipe does not say. No function of the machine's memory: the order of tiles, by the windows,
// is one of it, and is the same on every machine.
int64_t default_cached_volumes(const VolumeSize& largest, int64_t channels);

enum class TileReading {
  kShuffled,
  kInOrder,  // two volumes are kept at most: a volume's tiles follow each other
};

// Tiles in the order of the samples, then of the Tiling. Labels and class names are the sample's,
// masks are cut with the pixels. Thread-safe. Of samples with cheap regions a tile is
// read by itself; of others the last `cached_volumes` stay decoded, so that reading tiles in order
// decodes each sample once.
class TiledDataset : public Dataset {
 public:
  // Asks the source for the sizes of all samples. Throws ConfigError or DataError naming the first
  // sample that cannot be cut.
  TiledDataset(std::shared_ptr<const Dataset> source, const TilingConfig& config,
               TileReading reading = TileReading::kShuffled);

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  SampleForm form() const override { return source_->form(); }
  bool has_masks() const override { return source_->has_masks(); }
  // Throws DataError where the sample has not the size that it had at the start.
  void read(int64_t index, Sample& sample) const override;
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  int64_t num_classes() const override { return source_->num_classes(); }
  VolumeSize size_of(int64_t index) const override;
  // "scans/a.nii tile 3 of 8", counted from 0.
  std::string describe(int64_t index) const override;
  // Of volumes that are shuffled: windows of half of the volumes that are kept, so that threads
  // which are in the next window already drive out nothing that others still need.
  TileWindows tile_windows() const override;

  // For the log: from how many volumes tiles are mixed and what is kept; empty where none are.
  std::string describe_cache() const;
  const Dataset& source() const { return *source_; }
  // Which sample of the source a tile is of.
  int64_t sample_of(int64_t index) const;
  // The tiles of sample `sample` are [first_tile, first_tile + num_tiles).
  int64_t first_tile(int64_t sample) const;
  int64_t num_tiles(int64_t sample) const;
  // The tiles of a sample, for the way back.
  Tiling tiling(int64_t sample) const;

 private:
  bool has_windows() const;
  int64_t window() const;
  bool read_by_region(int64_t whole, const Tile& tile, Sample& sample) const;

  std::shared_ptr<const Dataset> source_;
  TilingConfig config_;
  std::vector<VolumeSize> sizes_;  // [samples]
  std::vector<int64_t> ends_;      // [samples]: tiles of samples 0 to i
  TileReading reading_;
  int64_t decoded_bytes_ = 0;  // of the largest volume, with its mask
  int64_t cached_ = 0;
  mutable std::optional<LatestUsed<const Sample>> cache_;
};

// A TiledDataset; the log says what it keeps, after the name of the set where it has one.
std::shared_ptr<const Dataset> cut_into_tiles(std::shared_ptr<const Dataset> source,
                                              const TilingConfig& config, TileReading reading,
                                              const std::string& set = "");

}  // namespace fovea::data
