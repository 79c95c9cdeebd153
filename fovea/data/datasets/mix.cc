#include "fovea/data/datasets/mix.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "fovea/core/error.h"
#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/tiles/tiled.h"

namespace fovea::data {
namespace {

// A set, or one for each of its variables.
void add_sets(const MixConfig& config, const MixSetConfig& set,
              const std::optional<TilingConfig>& tiling, const std::vector<std::string>* learned,
              std::vector<MixSet>& sets) {
  auto dataset = build_mix_source(set, learned);
  const auto& cut = set.tiling ? set.tiling : tiling;
  if (cut) {
    dataset = cut_into_tiles(dataset, *cut,
                             learned == nullptr ? TileReading::kShuffled : TileReading::kInOrder,
                             set.name);
  }
  const auto& own = set.source->transforms();
  const auto& transforms = own.empty() ? config.transforms : own;
  if (!set.single_channel) {
    sets.push_back({set.name, dataset, set.variables, set.weight, transforms});
    return;
  }
  for (size_t channel = 0; channel < set.variables.size(); ++channel) {
    const std::string& variable = set.variables[channel];
    sets.push_back({set.name + "." + variable,
                    std::make_shared<ChannelsDataset>(
                        dataset, std::vector<int64_t>{static_cast<int64_t>(channel)}),
                    {variable},
                    set.weight,
                    transforms});
  }
}

void check_agreement(const MixSet& first, const MixSet& other) {
  const Dataset &a = *first.dataset, &b = *other.dataset;
  if (a.form() != b.form()) {
    fail<ConfigError>("{} holds {}, but {} {}; a mix is of one kind", first.name,
                      a.form() == SampleForm::kImage ? "images" : "volumes", other.name,
                      b.form() == SampleForm::kImage ? "images" : "volumes");
  }
  if (a.has_masks() != b.has_masks()) {
    fail<ConfigError>("{} has masks and {} has none; a mix is of one kind",
                      a.has_masks() ? first.name : other.name,
                      a.has_masks() ? other.name : first.name);
  }
  if (!a.class_names().empty() && !b.class_names().empty() && a.class_names() != b.class_names()) {
    fail<ConfigError>(
        "{} and {} have other classes, or the same in another order; give both the same "
        "class_names",
        first.name, other.name);
  }
}

class Mix final : public ConfigHolder<DataSection, MixConfig, Mix> {
 public:
  const std::vector<AnyTransformConfig>& transforms() const override { return config.transforms; }
  std::vector<AnyTransformConfig>& transforms() override { return config.transforms; }
  VolumeAxes volume_axes() const override {
    for (const MixSetConfig& set : config.sets) {
      const VolumeAxes axes = set.source->volume_axes();
      if (axes != VolumeAxes::kUnknown) return axes;
    }
    return VolumeAxes::kUnknown;
  }
};

}  // namespace

const ConfigAlternatives& DataSection::alternatives() {
  static const ConfigAlternatives all = [] {
    ConfigAlternatives with_mix = DatasetFormat::alternatives();
    with_mix.push_back(alternative<Mix>());
    return with_mix;
  }();
  return all;
}

void MixSetConfig::validate(ConfigIssues& issues) const {
  if (start >= end) {
    issues.add("end", {"start"},
               fmt::format("{} with start={}; expected a share above start", end, start));
  }
  for (auto name = variables.begin(); name != variables.end(); ++name) {
    if (!name->empty() && std::find(variables.begin(), name, *name) == name) continue;
    issues.add("variables",
               fmt::format("'{}' {}; expected a name for each channel, all different", *name,
                           name->empty() ? "is no name" : "stands there twice"));
  }
  if (single_channel && variables.empty()) {
    issues.add("variables", {"single_channel"},
               "single_channel needs them: they say which channels there are");
  }
}

void MixConfig::validate(ConfigIssues& issues) const {
  if (sets.empty()) issues.add("sets", "none; expected at least one");
  std::set<std::string> names;
  for (const MixSetConfig& set : sets) {
    if (!names.insert(set.name).second) {
      issues.add("sets",
                 fmt::format("\"{}\" stands there twice; give each its own name", set.name));
    }
  }
  for (const auto& [name, batches] : batches_per_rank_epoch) {
    if (!names.contains(name)) {
      issues.add("batches_per_rank_epoch", {"sets"},
                 fmt::format("\"{}\" is no set of this mix", name));
    } else if (batches < 1) {
      issues.add("batches_per_rank_epoch",
                 fmt::format("{} for \"{}\"; expected a number above 0", batches, name));
    }
  }
}

MixDataset::MixDataset(std::vector<MixSet> sets) : sets_(std::move(sets)) {
  if (sets_.empty()) fail<ConfigError>("a mix of no sets; expected at least one");
  int64_t end = 0;
  for (const MixSet& set : sets_) {
    if (set.dataset->size() == 0) {
      fail<DataError>("{}: the set is empty; check its path, its shares and its tiles", set.name);
    }
    check_agreement(sets_[0], set);
    ends_.push_back(end += set.dataset->size());
  }
}

int64_t MixDataset::set_of(int64_t index) const {
  FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
  return std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
}

// The set of a sample; `index` becomes the one in that set.
const Dataset& MixDataset::locate(int64_t& index) const {
  const auto set = static_cast<size_t>(set_of(index));
  if (set > 0) index -= ends_[set - 1];
  return *sets_[set].dataset;
}

MixOptions MixDataset::options(MixMode mode) const {
  MixOptions options{.mode = mode};
  for (const MixSet& set : sets_) {
    options.set_sizes.push_back(set.dataset->size());
    options.weights.push_back(set.weight);
    options.set_names.push_back(set.name);
    options.tiles.push_back(set.dataset->tile_windows());
  }
  return options;
}

void MixDataset::read(int64_t index, Sample& sample) const {
  const Dataset& dataset = locate(index);
  dataset.read(index, sample);
}

const std::vector<std::string>& MixDataset::class_names() const {
  for (const MixSet& set : sets_) {
    if (!set.dataset->class_names().empty()) return set.dataset->class_names();
  }
  return sets_[0].dataset->class_names();
}

int64_t MixDataset::num_classes() const {
  int64_t most = 0;
  for (const MixSet& set : sets_) most = std::max(most, set.dataset->num_classes());
  return most;
}

VolumeSize MixDataset::size_of(int64_t index) const {
  const Dataset& dataset = locate(index);
  return dataset.size_of(index);
}

int64_t MixDataset::channels_of(int64_t index) const {
  const Dataset& dataset = locate(index);
  return dataset.channels_of(index);
}

bool MixDataset::read_region(int64_t index, const VolumeRegion& region, Sample& sample) const {
  const Dataset& dataset = locate(index);
  return dataset.read_region(index, region, sample);
}

std::string MixDataset::describe(int64_t index) const {
  const std::string& name = sets_[static_cast<size_t>(set_of(index))].name;
  const Dataset& dataset = locate(index);
  return name + ": " + dataset.describe(index);
}

std::shared_ptr<const Dataset> build_mix_source(const MixSetConfig& config,
                                                const std::vector<std::string>* learned) {
  auto dataset = learned == nullptr ? build_dataset(config.source)
                                    : build_validation_set(config.source, *learned);
  if (config.start == 0.0 && config.end == 1.0) return dataset;
  return std::make_shared<SubsetDataset>(dataset, config.start, config.end);
}

std::shared_ptr<const MixDataset> build_mix_dataset(const MixConfig& config,
                                                    const std::optional<TilingConfig>& tiling,
                                                    const std::vector<std::string>* learned) {
  const MixSetConfig* known = nullptr;  // the last whose axes are known
  for (const MixSetConfig& set : config.sets) {
    const VolumeAxes axes = set.source->volume_axes();
    if (axes == VolumeAxes::kUnknown) continue;
    if (known != nullptr)
      check_same_axes(known->source->volume_axes(), known->name, axes, set.name);
    known = &set;
  }
  std::vector<MixSet> sets;
  for (const MixSetConfig& set : config.sets) add_sets(config, set, tiling, learned, sets);
  return std::make_shared<MixDataset>(std::move(sets));
}

std::vector<int64_t> parse_group_list(const std::string& text, int64_t num_sets) {
  std::vector<int64_t> groups;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int64_t ranks = 0;
    const auto [after, error] = std::from_chars(at, end, ranks);
    const bool is_last = after == end;
    if (error != std::errc() || ranks < 1 || (!is_last && (*after != ':' || after + 1 == end))) {
      fail<ConfigError>("dataset_group_list=\"{}\"; expected numbers above 0, as in \"3:5\"", text);
    }
    groups.push_back(ranks);
    at = is_last ? end : after + 1;
  }
  if (static_cast<int64_t>(groups.size()) != num_sets) {
    fail<ConfigError>(
        "dataset_group_list=\"{}\" has {} numbers, but the mix has {} sets; give one for each "
        "(fovea data balance makes the list)",
        text, groups.size(), num_sets);
  }
  return groups;
}

}  // namespace fovea::data
