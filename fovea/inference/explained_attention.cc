#include "fovea/inference/explained_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/batch/adaptive_patch_filler.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/segmenter.h"
#include "fovea/models/vit.h"
#include "fovea/nn/attention_core.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/diffusion/noise_schedule.h"
#include "fovea/train/diffusion/row_draws.h"
#include "fovea/train/evaluate/patch_images.h"
#include "fovea/train/tasks/diffusion.h"

// L patches, S values of a patch, sides are H, W or D, H, W.
namespace fovea::inference {
namespace {

// Names of the maps by which each block mixes tokens, and the block's index: of attentions side by
// side all are heads of the block.
std::map<std::string, size_t> maps_of(const models::Model& model, const std::string& blocks) {
  std::map<std::string, size_t> maps;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const auto* attends = dynamic_cast<const nn::HasAttention*>(item.value().get());
    if (attends == nullptr || !item.key().starts_with(blocks + ".")) continue;
    const auto* digits = item.key().c_str() + blocks.size() + 1;
    const auto name = item.key() + "." + attends->attention_core().recorded_map();
    maps[name] = static_cast<size_t>(std::atoll(digits));
  }
  return maps;
}

// The tree that all tokens of the sample lie on; of channels with trees of their own, the first's.
void lay_on_tree(const train::TensorBatch& batch, TokenLayout& layout) {
  const auto length = batch.patches.tokens.size(2), values = batch.patches.tokens.size(3);
  layout.grid = {length};
  layout.real_patches = models::real_patches(batch.patches).to(at::kCPU);
  // A copy: the layout outlives the batch.
  const auto trees =
      std::make_shared<std::vector<data::PatchTree>>(batch.trees.begin(), batch.trees.end());
  const auto sides = batch.images.sizes().slice(2).vec();
  layout.to_image = [length, values, trees, sides](const at::Tensor& map) {
    const auto constant = map.to(at::kCPU, at::kFloat).view({1, 1, length, 1});
    return train::images_of_patches(constant.expand({1, 1, length, values}).contiguous(), *trees,
                                    sides,
                                    /*is_tree_of_channel=*/false)[0][0];
  };
}

TokenLayout layout_of(const models::Model& model, const models::AttentionView& view,
                      const train::TensorBatch& batch) {
  TokenLayout layout;
  layout.num_prefix = view.num_prefix;
  layout.uses_class_token = view.uses_class_token;
  if (model.takes_patches()) {
    lay_on_tree(batch, layout);
  } else {
    layout.grid = model.token_grid(batch.images.sizes().slice(2));
  }
  return layout;
}

// images: [1, C, sides] -> [1, C, window], the middle; smaller sides are filled up with zeros, as
// the windows of an evaluation are. first: where it begins.
at::Tensor middle_window(const at::Tensor& images, at::IntArrayRef window,
                         std::vector<int64_t>& first) {
  auto cut = images;
  const auto sides = static_cast<int64_t>(window.size());
  std::vector<int64_t> padding;
  for (int64_t side = 0; side < sides; ++side) {
    const auto length = window[static_cast<size_t>(side)];
    const auto lacks = std::max<int64_t>(0, length - images.size(side + 2));
    first.push_back(lacks > 0 ? -(lacks / 2) : (images.size(side + 2) - length) / 2);
    cut = cut.narrow(side + 2, std::max<int64_t>(0, first.back()), length - lacks);
    padding.insert(padding.begin(), {lacks / 2, lacks - lacks / 2});
  }
  return at::constant_pad_nd(cut, padding).contiguous();
}

// Of a model that has one size, what is shown of a larger input, with patches of its own.
struct Window {
  data::Batch buffers;
  train::TensorBatch tensors;
};

void cut_window(const models::Model& model, const train::TensorBatch& batch, at::IntArrayRef sides,
                std::vector<int64_t>& first, Window& window) {
  const auto images = middle_window(batch.images, sides, first);
  if (!model.takes_patches()) {
    window.tensors.images = images;
    window.tensors.variables = batch.variables;
    return;
  }
  const auto values = images.to(at::kCPU, at::kFloat).contiguous();
  window.buffers = data::cut_volumes(
      *batch.patching, {values.const_data_ptr<float>(), static_cast<size_t>(values.numel())},
      values.sizes().vec());
  window.tensors = train::to_tensors(window.buffers, 0, 1,
                                     {.device = images.device(), .dtype = images.scalar_type()});
  window.tensors.variables = batch.variables;
}

// Of a segmentation model that gives images: the sides it takes, where these are others.
std::vector<int64_t> other_sides(const models::Model& model, const train::TensorBatch& batch) {
  const auto* segmenter = model.as_segmenter();
  if (segmenter == nullptr || segmenter->gives_patches()) return {};
  const auto sides = segmenter->window_size();
  const bool can_be_cut = !model.takes_patches() || batch.patching != nullptr;
  if (!can_be_cut || batch.images.sizes().slice(2) == at::IntArrayRef(sides)) return {};
  return sides;
}

// images: [1, C, sides] -> the same with noise, and the passage of the model over them.
at::Tensor pass_noisy(const train::Inference& inference, const models::DiffusionVit& model,
                      const train::TensorBatch& batch, double noise_level) {
  const auto* found =
      inference.config ? inference.config->task.get_if<train::DiffusionConfig>() : nullptr;
  const train::NoiseSchedule schedule(
      (found ? *found : train::DiffusionConfig()).schedule_options());
  const auto last = static_cast<double>(schedule.num_time_steps() - 1);
  const auto images = (model.takes_patches() ? batch.patches.tokens : batch.images)
                          .to(at::kCPU, at::kFloat);  // or values of patches
  const auto timesteps = at::full({1}, static_cast<int64_t>(noise_level * last + 0.5), at::kLong);
  const auto noise =
      train::normal_rows({philox_key(0, "explain"), 0, at::arange(1)}, images.sizes().slice(1));
  const auto noisy = schedule.add_noise(images, noise, timesteps);
  const auto& compute = inference.compute;
  const auto given = noisy.to(compute.device, compute.dtype);
  model.denoise(train::input_of(model, batch).with_tensor(given), timesteps.to(compute.device));
  if (!model.takes_patches()) return noisy;
  return train::images_of_patches(noisy, batch.trees, batch.images.sizes().slice(2),
                                  /*is_tree_of_channel=*/true);
}

void pass(models::Model& model, bool is_of_features, const train::TensorBatch& batch) {
  if (!is_of_features) {
    train::forward(model, batch);
  } else {
    model.pooled_features(train::input_of(model, batch));
  }
}

}  // namespace

ExplainedAttention explained_attention(const train::Inference& inference,
                                       const train::TensorBatch& batch, double noise_level) {
  const at::NoGradGuard no_grad;
  auto& model = *inference.model;
  const auto view = model.attention_view();
  if (view.blocks.empty()) {
    fail<ConfigError>("a model {} has no attention that explain knows", model.recipe_name());
  }
  if (model.takes_patches() && !batch.patches.tokens.defined()) {
    fail<ConfigError>(
        "the model takes adaptive patches, which are cut from files; expected images or volumes as "
        "files, not as a tensor");
  }
  ExplainedAttention explained;
  Window window;
  const auto sides = other_sides(model, batch);
  if (!sides.empty()) {
    cut_window(model, batch, sides, explained.window, window);
    explained.seen = window.tensors.images.to(at::kCPU, at::kFloat).clone();
  }
  const auto& given = sides.empty() ? batch : window.tensors;
  const auto block_of = maps_of(model, view.blocks);
  std::vector<std::string> names;
  for (const auto& map : block_of) names.push_back(map.first);
  const std::string pool_name = "attn_pool.probs";
  names.push_back(pool_name);
  const nn::RecordScope recorder(names);
  if (const auto* denoiser = model.as_denoiser()) {
    explained.seen = pass_noisy(inference, *denoiser, given, noise_level);
  } else {
    pass(model, view.is_of_features, given);
  }
  explained.layout = layout_of(model, view, given);
  std::vector<std::vector<at::Tensor>> maps(static_cast<size_t>(view.depth));
  for (const auto& [name, probabilities] : recorder.intermediates()) {
    const auto on_cpu = probabilities.to(at::kCPU, at::kFloat);
    if (name == pool_name) {
      explained.layout.pool_probabilities = on_cpu;
    } else {
      maps.at(block_of.at(name)).push_back(on_cpu);
    }
  }
  for (const auto& heads : maps) {
    if (!heads.empty()) explained.blocks.push_back(at::cat(heads, 1));
  }
  return explained;
}

}  // namespace fovea::inference
