#include "fovea/data/section.h"

#include <type_traits>

#include "fovea/core/error.h"
#include "fovea/data/tiled.h"

namespace fovea::data {
namespace {

std::shared_ptr<const TransformPipeline> make_pipeline(
    const std::vector<TransformConfig>& transforms, int64_t in_chans) {
  return std::make_shared<const TransformPipeline>(transforms, in_chans);
}

void open_single(const DataConfig& config, const DatasetConfig& section, int64_t in_chans,
                 OpenedSection& opened) {
  opened.dataset = build_dataset(section);
  if (opened.dataset->form() == SampleForm::kVolume) {
    fail<ConfigError>(
        "this data set holds volumes, which a recipe cannot train on yet; a program can, with a "
        "Loader and a VolumePipeline");
  }
  if (config.tiling) {
    opened.dataset = std::make_shared<TiledDataset>(opened.dataset, *config.tiling);
  }
  opened.transforms = {make_pipeline(transforms_of(section), in_chans)};
  opened.variables = {{}};
}

MixOptions mix_options(const DataConfig& config, const MixConfig& mix, const MixDataset& dataset,
                       bool is_training) {
  const MixMode mode = is_training ? mix_mode(config.mix) : MixMode::kExact;
  MixOptions options = dataset.options(mode);
  if (mode != MixMode::kRankGroups) return options;
  const auto num_sets = static_cast<int64_t>(dataset.sets().size());
  options.rank_groups = parse_group_list(mix.dataset_group_list, num_sets);
  if (mix.batches_per_rank_epoch.empty()) return options;
  for (const MixSet& set : dataset.sets()) {
    const auto found = mix.batches_per_rank_epoch.find(set.name);
    if (found == mix.batches_per_rank_epoch.end()) {
      fail<ConfigError>("batches_per_rank_epoch names no \"{}\"; give all sets of the mix, or none",
                        set.name);
    }
    options.batches_per_rank.push_back(found->second);
  }
  return options;
}

void open_mix(const DataConfig& config, const MixConfig& mix, int64_t in_chans, bool is_training,
              OpenedSection& opened) {
  const auto dataset = build_mix_dataset(mix, config.tiling);
  for (const MixSet& set : dataset->sets()) {
    const auto channels = static_cast<int64_t>(set.variables.size());
    opened.transforms.push_back(make_pipeline(set.transforms, channels > 0 ? channels : in_chans));
    opened.variables.push_back(set.variables);
  }
  opened.options.mix = mix_options(config, mix, *dataset, is_training);
  if (opened.options.mix.mode == MixMode::kExact) opened.options.drop_last = false;
  opened.dataset = dataset;
}

}  // namespace

OpenedSection open_section(const DataConfig& config, const DataSectionConfig& section,
                           int64_t in_chans, bool is_training) {
  OpenedSection opened;
  opened.options = {.global_batch_size = config.global_batch_size,
                    .shuffle = is_training,
                    .drop_last = is_training && config.drop_last,
                    .threads = config.threads,
                    .prefetch = config.prefetch,
                    .pad_shards = !is_training,
                    .bad_samples = bad_sample_options(config.bad_samples, is_training)};
  section.visit_value([&](const auto& chosen) {
    if constexpr (std::is_same_v<std::decay_t<decltype(chosen)>, MixConfig>) {
      open_mix(config, chosen, in_chans, is_training, opened);
    } else {
      open_single(config, DatasetConfig{chosen}, in_chans, opened);
    }
  });
  return opened;
}

}  // namespace fovea::data
