// B batch, C channels, L patches, T trees a sample, d sides.
#include "fovea/train/bench/example_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/batch/adaptive_patch_filler.h"
#include "fovea/data/batch/image_patch_filler.h"
#include "fovea/models/registry.h"
#include "fovea/train/tasks/patch_boxes.h"

namespace fovea::train {
namespace {

class EvenDetail : public data::NodeValues {
 public:
  int64_t value(const data::TreeBox& box) const override { return box.voxels(); }
};

data::PatchTree even_tree(const data::AdaptivePatchingConfig& cut,
                          const std::vector<int64_t>& sides) {
  const bool is_volume = sides.size() == 3;
  const auto last = sides.size() - 1;
  data::VolumeSize size;
  size.depth = is_volume ? sides[0] : 1;
  size.height = sides[last - 1];
  size.width = sides[last];
  data::TreeOptions options{.fixed_length = cut.fixed_length, .min_leaf = cut.min_leaf};
  options.max_depth = cut.max_depth.value_or(options.max_depth);
  data::PatchTree tree;
  data::TreeScratch scratch;
  data::grow_tree(size, is_volume, EvenDetail(), options, tree, scratch);
  return tree;
}

void check_patching(const TrainConfig& config) {
  if (config.data.adaptive_patching) return;
  fail<ConfigError>(
      "data.adaptive_patching: missing, but the model takes adaptive patches; expected a recipe "
      "that says how images are cut");
}

// Names of the channels; empty: they have none.
std::vector<std::string> example_variables(const models::ModelConfig& model) {
  const auto* vit = model.get_if<models::VitConfig>();
  if (!vit || !vit->has_variables()) return {};
  return vit->single_channel ? std::vector<std::string>{vit->variables.front()} : vit->variables;
}

// [size, C, sides].
std::vector<int64_t> images_shape(const models::InputSpec& spec,
                                  const std::vector<std::string>& variables, int64_t size) {
  std::vector<int64_t> shape = {
      size, variables.empty() ? spec.in_chans : static_cast<int64_t>(variables.size())};
  shape.insert(shape.end(), spec.img_size.begin(), spec.img_size.end());
  return shape;
}

bool has_masks(const TrainConfig& config) {
  return config.task.get_if<SegmentationConfig>() != nullptr;
}

}  // namespace

ExampleBatches::ExampleBatches(const TrainConfig& config, const models::Model& model,
                               at::ScalarType dtype, PatchedImages images)
    : config_(config),
      model_(model),
      dtype_(dtype),
      are_images_sent_(!model.takes_patches() || images == PatchedImages::kOnDevice) {
  if (!model.takes_patches()) return;
  check_patching(config);
  const auto sides = model.input_spec().img_size;
  tree_ = even_tree(*config.data.adaptive_patching, {sides.begin(), sides.end()});
}

bool ExampleBatches::has_all_patches() const {
  return !model_.takes_patches() ||
         static_cast<int64_t>(tree_.leaves.size()) == config_.data.adaptive_patching->fixed_length;
}

TensorBatch ExampleBatches::rows(int64_t begin, int64_t end) {
  const auto options = at::TensorOptions().device(at::kMeta);
  const int64_t count = end - begin;
  TensorBatch batch;
  batch.rows = at::arange(begin, end);
  batch.indices = batch.rows;
  batch.variables = example_variables(config_.model);
  auto shape = images_shape(model_.input_spec(), batch.variables, count);
  const auto of_images = [&](at::ScalarType dtype) {
    return are_images_sent_ ? at::empty(shape, options.dtype(dtype))
                            : at::empty({1}, options.dtype(dtype)).expand(shape);
  };
  batch.images = of_images(dtype_);
  const bool is_mixed = config_.data.mixup.is_on();
  batch.labels = is_mixed ? at::empty({count, model_.num_classes()}, options.dtype(at::kFloat))
                          : at::empty({count}, options.dtype(at::kLong));
  if (has_masks(config_)) {
    shape.erase(shape.begin() + 1);
    batch.masks = of_images(at::kLong);
  }
  if (model_.takes_patches()) add_patches(batch, count);
  if (model_.takes_packed()) {
    batch.packed = models::pack_images(batch.images, *model_.input_spec().packed_patch_size);
  }
  return batch;
}

// As data.adaptive_patching would cut the images.
void ExampleBatches::add_patches(TensorBatch& batch, int64_t count) {
  const auto& cut = *config_.data.adaptive_patching;
  const int64_t channels = batch.images.size(1), dims = batch.images.dim() - 2;
  const int64_t trees = cut.separate_channels ? channels : 1, leaves = cut.fixed_length;
  int64_t values = 1;
  for (int64_t i = 0; i < dims; ++i) values *= cut.patch_size;
  trees_.assign(static_cast<size_t>(count * trees), tree_);
  const auto options = batch.images.options().dtype(at::kFloat);
  batch.patches = {
      .tokens = at::empty({count, channels, leaves, values}, batch.images.options()),
      .sizes = at::empty({count, trees, leaves}, options),
      .centers = at::empty({count, trees, leaves, dims}, options),
      .padding = at::empty({count, trees, leaves}, options.dtype(at::kBool)),
      .images = are_images_sent_ ? batch.images : at::Tensor(),
      .boxes = boxes_of(trees_, {.num_trees = trees, .fixed_length = leaves, .dims = dims})};
  batch.trees = trees_;
  batch.patching = &cut;
  if (batch.masks.defined()) {
    batch.patch_labels = at::empty({count, leaves, values}, options.dtype(at::kLong));
  }
}

data::Batch noise_batch(const TrainConfig& config, const models::Model& model, int64_t size) {
  RandomStream random(philox_key(0, "noise"), 0);
  const auto variables = example_variables(config.model);
  const auto shape = images_shape(model.input_spec(), variables, size);
  const auto num_classes = std::max<int64_t>(1, model.num_classes());
  const auto draw_class = [&] { return random.below(static_cast<uint32_t>(num_classes)); };
  std::vector<float> values(c10::multiply_integers(shape));
  for (auto& value : values) value = static_cast<float>(random.uniform(-1, 1));
  std::vector<int32_t> masks(has_masks(config) ? values.size() / shape[1] : 0);
  for (auto& mask : masks) mask = static_cast<int32_t>(draw_class());
  data::Batch batch;
  if (model.takes_patches()) {
    check_patching(config);
    auto cut = *config.data.adaptive_patching;
    cut.value_range = {-1, 1};
    batch = data::cut_volumes(cut, values, shape, std::move(masks));
  } else {
    if (model.takes_packed()) {
      batch = data::image_patches_of(values, shape, *model.input_spec().packed_patch_size);
    } else {
      batch.image_shape = shape;
      batch.images = std::move(values);
      batch.masks = std::move(masks);
    }
    batch.indices.resize(size);
    std::iota(batch.indices.begin(), batch.indices.end(), 0);
    batch.rows = batch.indices;
    batch.weights.assign(size, 1.0f);
  }
  batch.variables = variables;
  batch.global_size = size;
  if (config.data.mixup.is_on()) {
    batch.targets.assign(size * num_classes, 1.0f / static_cast<float>(num_classes));
  }
  for (int64_t row = 0; row < size; ++row) batch.labels.push_back(draw_class());
  return batch;
}

}  // namespace fovea::train
