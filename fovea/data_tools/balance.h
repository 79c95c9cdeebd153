// How many processes read each set of a mix, so that all have about the same work: the load
// balancing of UCF-VIT's rank groups, from the sizes that the images really have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/config.h"

namespace fovea::data {

struct BalanceSet {
  std::string name = {};
  std::vector<int64_t> tiles = {};  // of each image
  int64_t num_channels = 1;         // that are batched one by one (single_channel); 1: together
};

struct BalanceOptions {
  int64_t num_ranks = 1;
  int64_t batch_size = 1;            // of one rank
  bool upstream_compatible = false;  // every image has as many tiles as its set's first
};

struct BalancedSet {
  std::string name = {};
  int64_t num_images = 0;
  int64_t fewest_tiles = 0;  // of an image
  int64_t most_tiles = 0;
  int64_t total_tiles = 0;  // times num_channels
  double share = 0;         // of the ranks, before rounding
  int64_t ranks = 0;
  int64_t batches_per_rank_epoch = 0;
};

struct Balance {
  std::vector<BalancedSet> sets;
  int64_t num_ranks = 0;
  int64_t batch_size = 0;

  // "3:5", ranks of each set.
  std::string group_list() const;
};

// share_s = N * tiles_s / sum of tiles; ranks_s = share_s rounded, half to even; then, until they
// add up to N, one less for the set with the most above its share (that has more than one), or one
// more for the set with the most below it. batches_per_rank_epoch: the tiles of a rank's
// floor(images / ranks) images, over the batch size, rounded down; where images differ, of the
// smallest ones, so that every rank has as many.
// Throws ConfigError where UCF-VIT stops or would divide by 0: a set without a rank (the message
// names the fewest ranks that work), fewer images than ranks, less than one batch.
Balance balance(const std::vector<BalanceSet>& sets, const BalanceOptions& options);

// What `balance` takes of a recipe's data.train: a mix, or one data set as a set named "train".
std::vector<BalanceSet> balance_sets(const DataConfig& config);

// A table for people, ending with what belongs into the recipe.
std::string balance_text(const Balance& balance);
// The load_balancing section of UCF-VIT's recipes.
std::string balance_yaml(const Balance& balance);

}  // namespace fovea::data
