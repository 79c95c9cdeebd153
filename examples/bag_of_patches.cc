#include "bag_of_patches.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/nn/init.h"

namespace examples {

using fovea::models::add_mlp;
using fovea::models::add_row_of_whole;
using fovea::models::add_units;
using fovea::models::add_whole;

BagOfPatches::BagOfPatches(const BagOfPatchesConfig& config, at::Device device) : config_(config) {
  const int64_t dim = config.embed_dim;
  patch_embed_ = register_module(
      "patch_embed",
      nn::PatchEmbed(nn::PatchEmbedOptions{.patch_size = {config.patch_size, config.patch_size},
                                           .in_chans = config.in_chans,
                                           .dim = dim},
                     device));
  const auto list = register_module("blocks", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config.depth; ++i) {
    const nn::MlpOptions options{.dim = dim, .hidden_dim = 4 * dim};
    blocks_.push_back(list->register_module(std::to_string(i), nn::Mlp(options, device)));
  }
  norm_ = register_module("norm", nn::Norm(dim, nn::NormOptions{}, device));
  head_ = register_module("head", nn::Linear(dim, config.num_classes, /*has_bias=*/true, device));
  nn::assign_names(*this);
}

at::Tensor BagOfPatches::forward(const ModelInput& input) const {
  auto x = patch_embed_(input.images());               // [B, N, D]
  for (const auto& block : blocks_) x = x + block(x);  // [B, N, D]
  return head_(norm_(x).mean(1));                      // [B, num_classes]
}

void BagOfPatches::init_parameter(const std::string& name, const at::Tensor& value,
                                  uint64_t seed) const {
  const nn::VitInitOptions options{.patch_elements =
                                       config_.in_chans * config_.patch_size * config_.patch_size};
  nn::initialize(value, name, seed, nn::vit_init(name, value.sizes(), options));
}

InputSpec BagOfPatches::input_spec() const {
  return {.in_chans = config_.in_chans,
          .img_size = {config_.img_size, config_.img_size},
          .mean = std::vector<double>(config_.in_chans, 0.5),
          .std = std::vector<double>(config_.in_chans, 0.5)};
}

int64_t BagOfPatches::layer_id(const std::string& parameter_name) const {
  if (parameter_name.starts_with("patch_embed.")) return 0;
  if (parameter_name.starts_with("blocks.")) return std::stoll(parameter_name.substr(7)) + 1;
  return config_.depth + 1;
}

parallel::Partitioning partitioning_of(const BagOfPatchesConfig& config) {
  parallel::Partitioning partitioning;
  add_whole(partitioning, {"patch_embed.*", "norm.*"});
  add_mlp(partitioning, "blocks.*", {.dim = config.embed_dim, .hidden_dim = 4 * config.embed_dim});
  add_row_of_whole(partitioning, "head", config.embed_dim);
  add_units(partitioning, {"patch_embed", "head"});
  return partitioning;
}

}  // namespace examples
