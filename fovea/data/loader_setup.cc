#include "fovea/data/loader_setup.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"

namespace fovea::data {
namespace {

void open_single(const DataConfig& config, const DatasetConfig& section, const InputForm& input,
                 bool is_training, LoaderSetup& opened) {
  opened.dataset =
      is_training ? build_dataset(section) : build_validation_set(section, input.class_names);
  if (config.tiling) {
    opened.dataset = cut_into_tiles(opened.dataset, *config.tiling,
                                    is_training ? TileReading::kShuffled : TileReading::kInOrder);
  }
  opened.transforms = {
      make_transforms(section->transforms(), opened.dataset->form(), input.in_chans)};
  opened.options.variables = {{}};
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

void open_mix(const DataConfig& config, const MixConfig& mix, const InputForm& input,
              bool is_training, LoaderSetup& opened) {
  const auto dataset =
      build_mix_dataset(mix, config.tiling, is_training ? nullptr : &input.class_names);
  for (const MixSet& set : dataset->sets()) {
    const auto channels = static_cast<int64_t>(set.variables.size());
    opened.transforms.push_back(
        make_transforms(set.transforms, dataset->form(), channels > 0 ? channels : input.in_chans));
    opened.options.variables.push_back(set.variables);
  }
  opened.options.mix = mix_options(config, mix, *dataset, is_training);
  if (opened.options.mix.mode == MixMode::kExact) opened.options.drop_last = false;
  opened.dataset = dataset;
}

}  // namespace

SampleTransforms make_transforms(const std::vector<AnyTransformConfig>& transforms, SampleForm form,
                                 int64_t in_chans) {
  if (form == SampleForm::kVolume) {
    return std::make_shared<const VolumePipeline>(volume_transforms(transforms), in_chans);
  }
  return std::make_shared<const TransformPipeline>(image_transforms(transforms), in_chans);
}

LoaderSetup open_loader_setup(const DataConfig& config, const DataSectionConfig& section,
                              const InputForm& input, bool is_training) {
  if (config.train && config.val) {
    check_same_axes((*config.train)->volume_axes(), "data.train", (*config.val)->volume_axes(),
                    "data.val");
  }
  LoaderSetup opened;
  opened.options = {.global_batch_size = config.global_batch_size,
                    .shuffle = is_training,
                    .drop_last = is_training && config.drop_last,
                    .threads = config.threads,
                    .prefetch = config.prefetch,
                    .pad_shares = !is_training,
                    .spatial_dims = input.spatial_dims,
                    .packed_patch_size = input.packed_patch_size,
                    .bad_samples = bad_sample_options(config.bad_samples, is_training)};
  if (config.adaptive_patching) {
    opened.options.patching = {.config = *config.adaptive_patching, .is_random = is_training};
  }
  if (is_training) {
    if (config.mixup.is_on()) opened.options.mixup = config.mixup;
    opened.options.num_repeats = config.num_repeats;
    if (!config.batch_schedule.empty()) {
      opened.options.batch_schedule = read_batch_schedule(config.batch_schedule);
    }
  }
  if (const auto* mix = section.get_if<MixConfig>()) {
    open_mix(config, *mix, input, is_training, opened);
  } else {
    open_single(config, section.as<DatasetFormat>().value(), input, is_training, opened);
  }
  return opened;
}

bool can_be_bytes(const LoaderSetup& setup) {
  const auto& options = setup.options;
  if (options.patching || options.packed_patch_size) return false;
  const bool is_mixed = options.mixup && options.mixup->is_on();
  if (is_mixed && !options.share.is_whole() && !options.mixup->timm_local) return false;
  return std::all_of(setup.transforms.begin(), setup.transforms.end(), [](const auto& set) {
    const auto* images = std::get_if<std::shared_ptr<const TransformPipeline>>(&set);
    return images != nullptr && (*images)->gives_bytes();
  });
}

}  // namespace fovea::data
