#include "fovea/train/evaluate/recipe_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/kernels/device.h"
#include "fovea/models/registry.h"
#include "fovea/models/variables.h"
#include "fovea/train/tasks/make_task.h"

namespace fovea::train {
namespace {

// Before anything is trained: a batch with other channels might come late.
void check_variables_of(const models::Model& model, const data::LoaderSetup& opened,
                        const std::string& section) {
  const auto* mix = dynamic_cast<const data::MixDataset*>(opened.dataset.get());
  for (size_t set = 0; set < opened.options.variables.size(); ++set) {
    models::check_channels(
        model, opened.options.variables[set],
        mix != nullptr ? fmt::format("{}, set {}", section, mix->sets()[set].name) : section);
  }
}

// Classes of voxels are not matched by name.
void check_class_names(const std::vector<std::string>& expected,
                       const std::vector<std::string>& found) {
  if (expected.empty() || found.empty() || expected == found) return;
  const auto [left, right] =
      std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  const auto name = [](auto position, const auto& names) {
    return position == names.end() ? std::string("nothing") : "'" + *position + "'";
  };
  fail<ConfigError>(
      "data.val: class {} is {}, but {} in training; give both the same class folders, or the same "
      "class_names in the same order",
      left - expected.begin(), name(right, found), name(left, expected));
}

data::LoaderSetup open_data(const TrainConfig& config, const data::DataSectionConfig& section,
                            bool is_training, const data::BatchShare& share,
                            const std::vector<std::string>& class_names = {}) {
  const auto model = models::build_model(config.model, at::kMeta);  // its form alone
  if (model->takes_patches() != config.data.adaptive_patching.has_value()) {
    fail<ConfigError>("data.adaptive_patching: found {}, but the model takes {}; {}",
                      model->takes_patches() ? "nothing" : "a section",
                      model->takes_patches() ? "adaptive patches" : "images",
                      model->takes_patches()
                          ? "give it the model's fixed_length and patch_size"
                          : "leave it out, or give the model patching: adaptive");
  }
  auto input = input_form_of(*model);
  input.class_names = class_names;
  auto opened = data::open_loader_setup(config.data, section, input, is_training);
  check_class_names(class_names, opened.dataset->class_names());
  make_task(config.task, *model)->check_data(*opened.dataset);
  check_variables_of(*model, opened, is_training ? "data.train" : "data.val");
  opened.options.seed = static_cast<uint64_t>(config.run.seed);
  opened.options.share = share;
  // A GPU makes floats of them in the pass that mixes, and a quarter travels.
  if (kernels::resolve_device(config.device.type).is_cuda() && data::can_be_bytes(opened)) {
    opened.options.pixel_type = data::PixelType::kUint8;
  }
  return opened;
}

}  // namespace

data::InputForm input_form_of(const models::Model& model) {
  const auto spec = model.input_spec();
  return {.in_chans = spec.in_chans,
          .spatial_dims = static_cast<int>(spec.img_size.size()),
          .packed_patch_size = spec.packed_patch_size};
}

data::InputForm input_form_of(const models::ModelConfig& config) {
  return input_form_of(*models::build_model(config, at::kMeta));
}

data::LoaderSetup open_training_setup(const TrainConfig& config, const data::BatchShare& share) {
  if (!config.data.train) {
    fail<ConfigError>(
        "data.train is missing; expected a data set to train on, such as {{format: idx, path: "
        "...}}");
  }
  return open_data(config, *config.data.train, /*is_training=*/true, share);
}

data::LoaderSetup open_validation_setup(const TrainConfig& config,
                                        const std::vector<std::string>& class_names,
                                        const data::BatchShare& share) {
  if (!config.data.val) {
    fail<ConfigError>("data.val is missing; expected a data set to evaluate on");
  }
  return open_data(config, *config.data.val, /*is_training=*/false, share, class_names);
}

DatasetWithLoader make_loader(data::LoaderSetup setup) {
  DatasetWithLoader result;
  result.dataset = setup.dataset;
  result.loader =
      std::make_unique<data::Loader>(result.dataset, std::move(setup.transforms), setup.options);
  return result;
}

DatasetWithLoader open_training_data(const TrainConfig& config, const data::BatchShare& share) {
  return make_loader(open_training_setup(config, share));
}

DatasetWithLoader open_validation_data(const TrainConfig& config,
                                       const std::vector<std::string>& class_names,
                                       const data::BatchShare& share) {
  if (!config.data.val) return {};
  return make_loader(open_validation_setup(config, class_names, share));
}

}  // namespace fovea::train
