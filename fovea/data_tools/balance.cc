#include "fovea/data_tools/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "fovea/core/error.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/tiles/tiled.h"

namespace fovea::data {
namespace {

int64_t sum_of(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

// Note [Ties of the balance]
// UCF-VIT's walk over the sets, kept as it is, since it decides ties: the first set above its share
// is left for the next one, larger or not, as soon as it has one rank only.
size_t set_to_shrink(const std::vector<int64_t>& ranks, const std::vector<double>& excess) {
  size_t chosen = ranks.size();
  for (size_t set = 0; set < ranks.size(); ++set) {
    if (excess[set] < 0) continue;
    if (chosen == ranks.size() || ranks[chosen] == 1 ||
        (excess[set] > excess[chosen] && ranks[set] > 1)) {
      chosen = set;
    }
  }
  return chosen;
}

// Ranks of each set, of `num_ranks` in all; may be 0.
std::vector<int64_t> split_ranks(const std::vector<int64_t>& tiles, int64_t num_ranks,
                                 std::vector<double>& shares) {
  const auto total = static_cast<double>(sum_of(tiles));
  std::vector<int64_t> ranks;
  shares.clear();
  for (const int64_t count : tiles) {
    shares.push_back(static_cast<double>(count) / total * static_cast<double>(num_ranks));
    ranks.push_back(static_cast<int64_t>(std::nearbyint(shares.back())));
  }
  for (int64_t sum = sum_of(ranks); sum != num_ranks; sum = sum_of(ranks)) {
    std::vector<double> excess(ranks.size());
    for (size_t set = 0; set < ranks.size(); ++set) {
      excess[set] = static_cast<double>(ranks[set]) - shares[set];
    }
    if (sum > num_ranks) {
      --ranks[set_to_shrink(ranks, excess)];
    } else {
      ++ranks[std::min_element(excess.begin(), excess.end()) - excess.begin()];
    }
  }
  return ranks;
}

// The fewest ranks above `num_ranks` that give each set one; 0: none up to a million.
int64_t fewest_ranks(const std::vector<int64_t>& tiles, int64_t num_ranks) {
  std::vector<double> shares;
  for (int64_t wanted = num_ranks + 1; wanted <= 1'000'000; ++wanted) {
    const auto ranks = split_ranks(tiles, wanted, shares);
    if (*std::min_element(ranks.begin(), ranks.end()) > 0) return wanted;
  }
  return 0;
}

BalancedSet describe_set(const BalanceSet& set, bool upstream_compatible) {
  if (set.tiles.empty()) {
    fail<ConfigError>("{}: no images; correct its path or its shares", set.name);
  }
  const auto [fewest, most] = std::minmax_element(set.tiles.begin(), set.tiles.end());
  BalancedSet result{.name = set.name, .num_images = static_cast<int64_t>(set.tiles.size())};
  result.fewest_tiles = upstream_compatible ? set.tiles[0] : *fewest;
  result.most_tiles = upstream_compatible ? set.tiles[0] : *most;
  const int64_t tiles = upstream_compatible ? set.tiles[0] * result.num_images : sum_of(set.tiles);
  result.total_tiles = tiles * set.num_channels;
  if (result.total_tiles < 1) {
    fail<ConfigError>("{}: its images give no tiles; use a smaller tile_size", set.name);
  }
  return result;
}

// Tiles of the `count` images with the fewest.
int64_t smallest_tiles(const BalanceSet& set, int64_t count, bool upstream_compatible) {
  if (upstream_compatible) return count * set.tiles[0];
  std::vector<int64_t> sorted = set.tiles;
  std::nth_element(sorted.begin(), sorted.begin() + (count - 1), sorted.end());
  return std::accumulate(sorted.begin(), sorted.begin() + count, int64_t{0});
}

void set_batches(const BalanceSet& set, const BalanceOptions& options, BalancedSet& result) {
  const int64_t images = result.num_images / result.ranks;
  if (images < 1) {
    fail<ConfigError>(
        "{}: {} images for its {} of {} ranks, so not every rank has one; use fewer GPUs", set.name,
        result.num_images, result.ranks, options.num_ranks);
  }
  const int64_t tiles = smallest_tiles(set, images, options.upstream_compatible) * set.num_channels;
  result.batches_per_rank_epoch = tiles / options.batch_size;
  if (result.batches_per_rank_epoch < 1) {
    fail<ConfigError>(
        "{}: {} tiles for a rank, less than one batch of {}; UCF-VIT would divide by 0 there: use "
        "a smaller batch or fewer GPUs",
        set.name, tiles, options.batch_size);
  }
}

std::string quoted(const std::string& name) {
  std::string text = "'";
  for (const char c : name) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

BalanceSet count_set(const std::string& name, const std::shared_ptr<const Dataset>& source,
                     const std::optional<TilingConfig>& tiling) {
  BalanceSet set{.name = name};
  if (!tiling) {
    set.tiles.assign(static_cast<size_t>(source->size()), 1);
    return set;
  }
  const TiledDataset tiled(source, *tiling, TileReading::kInOrder);
  for (int64_t i = 0; i < source->size(); ++i) set.tiles.push_back(tiled.num_tiles(i));
  return set;
}

std::vector<BalanceSet> count_mix(const MixConfig& mix, const std::optional<TilingConfig>& tiling) {
  std::vector<BalanceSet> sets;
  for (const MixSetConfig& set : mix.sets) {
    sets.push_back(count_set(set.name, build_mix_source(set), set.tiling ? set.tiling : tiling));
    if (set.single_channel) sets.back().num_channels = static_cast<int64_t>(set.variables.size());
  }
  return sets;
}

}  // namespace

std::string Balance::group_list() const {
  std::string text;
  for (const BalancedSet& set : sets)
    text += fmt::format("{}{}", text.empty() ? "" : ":", set.ranks);
  return text;
}

Balance balance(const std::vector<BalanceSet>& sets, const BalanceOptions& options) {
  if (sets.empty()) fail<ConfigError>("no sets to balance; expected at least one");
  if (options.num_ranks < 1 || options.batch_size < 1) {
    fail<ConfigError>("{} ranks with batches of {}; expected numbers above 0", options.num_ranks,
                      options.batch_size);
  }
  Balance result{.sets = {}, .num_ranks = options.num_ranks, .batch_size = options.batch_size};
  std::vector<int64_t> tiles;
  for (const BalanceSet& set : sets) {
    result.sets.push_back(describe_set(set, options.upstream_compatible));
    tiles.push_back(result.sets.back().total_tiles);
  }
  std::vector<double> shares;
  const auto ranks = split_ranks(tiles, options.num_ranks, shares);
  for (size_t set = 0; set < sets.size(); ++set) {
    if (ranks[set] < 1) {
      fail<ConfigError>(
          "{}: none of the {} ranks, as its share is {:.2f} of one; the fewest that give each set "
          "one are {}: use more GPUs, leave the set out, or use another mix than rank_groups",
          sets[set].name, options.num_ranks, shares[set], fewest_ranks(tiles, options.num_ranks));
    }
    result.sets[set].share = shares[set];
    result.sets[set].ranks = ranks[set];
    set_batches(sets[set], options, result.sets[set]);
  }
  return result;
}

std::vector<BalanceSet> balance_sets(const DataConfig& config) {
  if (!config.train) {
    fail<ConfigError>("data.train is missing; expected the data sets that are to be balanced");
  }
  if (const auto* mix = config.train->get_if<MixConfig>()) return count_mix(*mix, config.tiling);
  const auto dataset = build_dataset(config.train->as<DatasetFormat>().value());
  return {count_set("train", dataset, config.tiling)};
}

std::string balance_text(const Balance& balance) {
  size_t width = 3;
  for (const BalancedSet& set : balance.sets) width = std::max(width, set.name.size());
  std::string text =
      fmt::format("{:<{}}  {:>10}  {:>15}  {:>12}  {:>8}  {:>6}  {:>12}\n", "set", width, "images",
                  "tiles an image", "tiles", "share", "ranks", "batches/rank");
  int64_t total = 0, fewest = 0, most = 0;
  for (const BalancedSet& set : balance.sets) {
    const std::string tiles = set.fewest_tiles == set.most_tiles
                                  ? fmt::format("{}", set.most_tiles)
                                  : fmt::format("{} to {}", set.fewest_tiles, set.most_tiles);
    text += fmt::format("{:<{}}  {:>10}  {:>15}  {:>12}  {:>8.2f}  {:>6}  {:>12}\n", set.name,
                        width, set.num_images, tiles, set.total_tiles, set.share, set.ranks,
                        set.batches_per_rank_epoch);
    total += set.total_tiles;
    fewest =
        fewest == 0 ? set.batches_per_rank_epoch : std::min(fewest, set.batches_per_rank_epoch);
    most = std::max(most, set.batches_per_rank_epoch);
  }
  text += fmt::format(
      "\n{} tiles over {} ranks, {} to a batch; an epoch has {} batches a rank, and the set with "
      "the fewest has {}\n",
      total, balance.num_ranks, balance.batch_size, most, fewest);
  text += "\nmix: rank_groups, under data; the samples depend on the number of ranks\n";
  text += fmt::format("dataset_group_list: \"{}\"\n", balance.group_list());
  text += "batches_per_rank_epoch:\n";
  for (const BalancedSet& set : balance.sets) {
    text += fmt::format("  {}: {}\n", quoted(set.name), set.batches_per_rank_epoch);
  }
  return text;
}

std::string balance_yaml(const Balance& balance) {
  std::string text = "load_balancing:\n  auto_load_balancing: False\n  batches_per_rank_epoch: {\n";
  for (const BalancedSet& set : balance.sets) {
    text += fmt::format("    {}: {},\n", quoted(set.name), set.batches_per_rank_epoch);
  }
  return text + fmt::format("  }}\n  dataset_group_list: '{}'\n", balance.group_list());
}

}  // namespace fovea::data
