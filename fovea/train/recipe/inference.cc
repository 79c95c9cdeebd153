#include "fovea/train/recipe/inference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/datasets/input_files.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/resize_to_patches.h"
#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/spatial_resize.h"
#include "fovea/kernels/device.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/models/follow_weights.h"
#include "fovea/models/registry.h"
#include "fovea/models/variables.h"
#include "fovea/models/weights.h"
#include "fovea/nn/give_data.h"
#include "fovea/train/evaluate/recipe_data.h"
#include "fovea/train/recipe/inference_source.h"
#include "fovea/train/recipe/int8_layers.h"
#include "fovea/train/recipe/weights_metadata.h"
#include "fovea/weights/read_weights.h"

namespace fovea::train {
namespace {

// timm's evaluation transform: the shorter edge, or both, to size / crop_pct, the centre, mean and
// std. Of a model of packed images: all of the image, with at most the patches of img_size.
std::vector<data::AnyTransformConfig> default_transforms(const models::InputSpec& spec) {
  if (spec.img_size.size() == 3) {
    data::SpatialResizeConfig resize;
    resize.spatial_size = spec.img_size;
    return {{resize}, {data::NormalizeIntensityConfig{}}};
  }
  data::NormalizeConfig normalize;
  normalize.mean = spec.mean;
  normalize.std = spec.std;
  if (spec.packed_patch_size) {
    const int64_t patch = *spec.packed_patch_size;
    data::ResizeToPatchesConfig to_patches;
    to_patches.patch_size = patch;
    to_patches.max_patches = (spec.img_size[0] / patch) * (spec.img_size[1] / patch);
    to_patches.interpolation = spec.interpolation;
    return {{to_patches}, {normalize}};
  }
  std::vector<int64_t> scaled;
  for (const auto side : spec.img_size) {
    scaled.push_back(static_cast<int64_t>(std::floor(static_cast<double>(side) / spec.crop_pct)));
  }
  const bool is_square = spec.img_size.front() == spec.img_size.back();
  const bool keeps_shape = is_square && spec.crop_mode == "center";
  data::ResizeConfig resize;
  resize.size = keeps_shape ? std::vector<int64_t>{scaled.front()} : scaled;
  resize.interpolation = spec.interpolation;
  data::CenterCropConfig crop;
  crop.size = spec.img_size;
  return {{resize}, {crop}, {normalize}};
}

// Volumes where the model takes them, and where slices of them are its images.
data::SampleForm form_of(const std::vector<data::AnyTransformConfig>& transforms,
                         const data::InputForm& input) {
  const bool has_volumes = input.spatial_dims == 3 ||
                           std::any_of(transforms.begin(), transforms.end(), data::is_of_volumes);
  return has_volumes ? data::SampleForm::kVolume : data::SampleForm::kImage;
}

// What the file says of its own model, where that is another one than this of the same shapes.
void check_own_model(const WeightsSource& source) {
  if (source.is_of_file) return;
  const auto differences = differences_of_weights(source.weights, source.model);
  if (differences.empty()) return;
  fail<CheckpointError>(
      "{}: the file holds the model that its weights are of, which is another one:\n  {}\nLeave "
      "the model out, for the file knows its own, or set these keys as the file has them",
      source.weights, fmt::join(differences, "\n  "));
}

// The preset with the sizes of the weights.
void follow(WeightsSource& source, const weights::FoveaWeights& file) {
  auto followed = models::follow_weights(source.model, file.tensors);
  if (followed.changes.empty()) return;
  log_info(fmt::format("{}: {}, as its tensors have them", source.weights,
                       fmt::join(followed.changes, ", ")));
  source.model = std::move(followed.config);
  if (source.config) source.config->model = source.model;
}

// The model with its values; what of them is not a file's, and what of the file is not in the
// model, is said.
models::ModelPtr load_model(WeightsSource& source, const std::string& target) {
  const auto& load = source.load;
  std::optional<weights::FoveaWeights> file;
  if (!source.weights.empty()) {
    check_own_model(source);
    file =
        weights::read_weights(source.weights, {.known = models::names_of_parameters(source.model),
                                               .num_heads = models::num_heads_of(source.model)});
    if (source.is_preset) follow(source, *file);
  }
  auto model = models::build_model(source.model);
  const bool is_partly_loaded = load.skip_head || load.part != models::WeightsPart::kAll;
  if (!file || is_partly_loaded) {
    const auto seed = source.config ? source.config->run.seed : 0;
    model->init_weights(static_cast<uint64_t>(seed));
  }
  if (!file) {
    log_warning(fmt::format(
        "{}: no file of weights is named: the model is as before its first step", target));
    return model;
  }
  const auto report = models::load_weights(*model, *file, source.weights, load);
  const auto text = fmt::format("{}: {}", source.weights, report.text());
  if (!report.skipped.empty()) {
    log_warning(text + "\nWhat was skipped is as before the first step");
  } else if (!report.is_plain()) {
    log_info(text);
  }
  return model;
}

// Data that is evaluated on with a preset alone is prepared as its weights expect.
void use_default_transforms(WeightsSource& source, const models::Model& model) {
  if (!source.is_alone || !source.config || !source.config->data.val) return;
  auto& transforms = (*source.config->data.val)->transforms();
  if (transforms.empty()) transforms = default_transforms(model.input_spec());
}

// Names that somebody gives, or that lie beside the weights.
std::vector<std::string> find_class_names(const WeightsSource& source, const std::string& file,
                                          const models::Model& model) {
  if (file.empty()) {
    const bool are_known = !source.class_names.empty() || source.weights.empty();
    return are_known ? source.class_names : class_names_beside(source.weights, model.num_classes());
  }
  auto names = read_class_names(file);
  if (static_cast<int64_t>(names.size()) != model.num_classes()) {
    fail<ConfigError>("--class-names {}: {} names, but the model has {} classes; expected as many",
                      file, names.size(), model.num_classes());
  }
  return names;
}

// data.tiling of the run, or that of the first set of a mix that has its own.
std::optional<data::TilingConfig> tiling_of(const Inference& inference) {
  if (!inference.config) return std::nullopt;
  const auto section = inference.data_section();
  if (const auto* mix = section ? section->get_if<data::MixConfig>() : nullptr) {
    for (const auto& set : mix->sets) {
      if (set.tiling) return set.tiling;
    }
  }
  return inference.config->data.tiling;
}

// Of the weights, cast here and not in the first pass, unless that makes panels of them.
std::shared_ptr<kernels::WeightCopies> copies_of(const Inference& inference) {
  const auto weights = inference.model->parameters();
  std::shared_ptr<kernels::WeightCopies> copies = kernels::WeightCopies::of_model(weights);
  if (inference.compute.dtype != at::kBFloat16) return copies;
  if (inference.compute.device.is_cpu() && kernels::has_bfloat16_products(at::kCPU)) return copies;
  for (const auto& weight : weights) {
    if (weight.dim() == 2) kernels::own_weight(weight, at::kBFloat16);  // a linear layer's
  }
  return copies;
}

// channels: of the inputs to come; empty: all that the model has.
void use_channels(Inference& inference, const std::vector<std::string>& channels) {
  if (!channels.empty()) models::check_channels(*inference.model, channels, "the inputs");
  inference.channels = channels;
  inference.input = input_form_of(*inference.model);
  if (!channels.empty()) inference.input.in_chans = static_cast<int64_t>(channels.size());
  inference.transforms = data::make_transforms(inference.transform_list,
                                               form_of(inference.transform_list, inference.input),
                                               inference.input.in_chans);
}

}  // namespace

std::string Inference::class_name(int64_t label) const {
  const auto index = static_cast<size_t>(label);
  return label >= 0 && index < class_names.size() ? class_names[index] : std::to_string(label);
}

std::optional<data::DataSectionConfig> Inference::data_section() const {
  if (!config) return std::nullopt;
  return config->data.val ? config->data.val : config->data.train;
}

std::shared_ptr<const data::Dataset> Inference::open_files(
    const std::vector<std::string>& inputs) const {
  return data::open_input_files(inputs, data_section());
}

Inference Inference::with_channels(const std::vector<std::string>& channels) const {
  Inference other = *this;
  use_channels(other, channels);
  return other;
}

bool Inference::cuts(data::SampleForm form) const {
  return form == data::SampleForm::kVolume && tiling_of(*this).has_value();
}

bool Inference::takes_slices() const {
  const auto tiling = tiling_of(*this);
  return tiling && tiling->two_d && input.spatial_dims == 2;
}

std::shared_ptr<const data::TiledDataset> Inference::cut(
    const std::shared_ptr<const data::Dataset>& samples, bool whole_slices) const {
  auto tiling = tiling_of(*this);
  if (!tiling || samples->form() != data::SampleForm::kVolume) return nullptr;
  if (whole_slices && !takes_slices()) return nullptr;
  tiling->tile_overlap = 0;
  tiling->use_all_data = true;
  tiling->upstream_compatible = false;
  if (whole_slices) {
    const auto size = samples->size_of(0);
    tiling->tile_size = {size.height, size.width};
  }
  return std::make_shared<const data::TiledDataset>(samples, *tiling, data::TileReading::kInOrder);
}

Inference load_inference(const std::string& target, const InferenceOptions& options) {
  auto source = find_source(target, options);
  Inference inference;
  // Not compute_options: a training run that loads another model keeps its threads and kernels.
  const auto device = kernels::resolve_device(options.device);
  const auto int8 = int8_of(options, source.config ? &*source.config : nullptr);
  const auto int8_ranges = int8 ? int8_ranges_of(*int8, source.weights) : std::nullopt;
  inference.compute = {
      .device = device,
      .dtype = int8 ? dtype_beside_int8(*int8) : dtype_from_name(options.dtype, device)};
  inference.model = load_model(source, target.empty() ? options.model : target);
  use_default_transforms(source, *inference.model);
  inference.model->to(inference.compute.device);
  inference.model->eval();
  inference.copies = copies_of(inference);
  inference.recorded = std::make_shared<nn::RecordedForward>(*inference.model);
  inference.passes = std::make_shared<kernels::FittingParts>(kPassSize, device);
  if (int8) {
    const auto* ranges = int8_ranges ? &*int8_ranges : nullptr;
    use_int8(*inference.model, *inference.copies, *int8, ranges);
  }
  const bool has_val = source.config && source.config->data.val;
  inference.transform_list = has_val ? (*source.config->data.val)->transforms()
                                     : default_transforms(inference.model->input_spec());
  use_channels(inference, options.variables);
  inference.class_names = find_class_names(source, options.class_names, *inference.model);
  inference.config = std::move(source.config);
  inference.weights = source.weights;
  return inference;
}

void save_inference_weights(const std::string& path, const models::Model& model,
                            const TrainConfig& config,
                            const std::vector<std::string>& class_names) {
  models::save_weights(model, path, own_metadata(config, class_names));
}

}  // namespace fovea::train
