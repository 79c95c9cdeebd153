// B batch, C channels, L patches, T trees a sample, d sides.
#include "fovea/train/example_batch.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/train/patch_boxes.h"

namespace fovea::train {
namespace {

class EvenDetail : public data::NodeValues {
 public:
  int64_t value(const data::Box& box) const override { return box.voxels(); }
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

}  // namespace

ExampleBatches::ExampleBatches(const TrainConfig& config, const models::Model& model,
                               at::ScalarType dtype)
    : config_(config), model_(model), dtype_(dtype) {
  if (!model.takes_patches()) return;
  if (!config.data.adaptive_patching) {
    fail<ConfigError>(
        "data.adaptive_patching: missing, but the model takes adaptive patches; expected a recipe "
        "that says how images are cut");
  }
  const auto sides = model.input_spec().img_size;
  tree_ = even_tree(*config.data.adaptive_patching, {sides.begin(), sides.end()});
}

bool ExampleBatches::has_all_patches() const {
  return !model_.takes_patches() ||
         static_cast<int64_t>(tree_.leaves.size()) == config_.data.adaptive_patching->fixed_length;
}

TensorBatch ExampleBatches::rows(int64_t begin, int64_t end) {
  const auto spec = model_.input_spec();
  const auto options = at::TensorOptions().device(at::kMeta);
  const int64_t count = end - begin;
  std::vector<int64_t> shape = {count, spec.in_chans}, sides = {count};
  shape.insert(shape.end(), spec.img_size.begin(), spec.img_size.end());
  sides.insert(sides.end(), spec.img_size.begin(), spec.img_size.end());
  TensorBatch batch;
  batch.rows = at::arange(begin, end);
  batch.indices = batch.rows;
  if (const auto* vit = config_.model.get_if<models::VitConfig>(); vit && vit->has_variables()) {
    batch.variables =
        vit->single_channel ? std::vector<std::string>{vit->variables.front()} : vit->variables;
    shape[1] = static_cast<int64_t>(batch.variables.size());
  }
  batch.images = at::empty(shape, options.dtype(dtype_));
  const bool is_mixed = config_.data.mixup.is_on();
  batch.labels = is_mixed ? at::empty({count, model_.num_classes()}, options.dtype(at::kFloat))
                          : at::empty({count}, options.dtype(at::kLong));
  if (config_.task.get_if<SegmentationConfig>() != nullptr) {
    batch.masks = at::empty(sides, options.dtype(at::kLong));
  }
  if (model_.takes_patches()) add_patches(batch, count);
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
      .images = batch.images,
      .boxes = boxes_of(trees_, {.num_trees = trees, .fixed_length = leaves, .dims = dims})};
  batch.trees = trees_;
  batch.patching = &cut;
  if (batch.masks.defined()) {
    batch.patch_labels = at::empty({count, leaves, values}, options.dtype(at::kLong));
  }
}

}  // namespace fovea::train
