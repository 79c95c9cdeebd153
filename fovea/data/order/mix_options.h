// How the samples of several sets come into batches; see Note [Mixing sets] in sample_order.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/order/tile_windows.h"

namespace fovea::data {

enum class MixMode { kExact, kCycleToLargest, kWeights, kRankGroups };

// "exact", "cycle_to_largest", "weights", "rank_groups"; throws ConfigError for another name.
MixMode mix_mode(const std::string& name);

// How several sets share the batches.
struct MixOptions {
  MixMode mode = MixMode::kExact;
  std::vector<int64_t> set_sizes = {};         // samples of each set
  std::vector<double> weights = {};            // kWeights: one a set, above 0
  std::vector<int64_t> rank_groups = {};       // kRankGroups: ranks of each set
  std::vector<int64_t> batches_per_rank = {};  // kRankGroups: of each set; empty: whole batches
  std::vector<std::string> set_names = {};     // for messages; empty: their numbers
  std::vector<TileWindows> tiles = {};         // [sets] or empty: see Note [Windows of tiles]

  int64_t num_sets() const { return static_cast<int64_t>(set_sizes.size()); }
  // For messages.
  std::string name_of(size_t set) const;
};

}  // namespace fovea::data
