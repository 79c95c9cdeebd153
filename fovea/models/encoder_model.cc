#include "fovea/models/encoder_model.h"

#include <optional>

namespace fovea::models {
namespace {

constexpr std::string_view kEncoderPrefix = "encoder.";

// "encoder.norm.weight" -> "norm.weight"; none for a name outside of the encoder.
std::optional<std::string> name_in_encoder(const std::string& name) {
  if (!name.starts_with(kEncoderPrefix)) return std::nullopt;
  return name.substr(kEncoderPrefix.size());
}

}  // namespace

EncoderModel::EncoderModel(const EncoderConfig& config, at::Device device)
    : encoder_(register_module(
          "encoder", std::make_shared<Vit>(EncoderConfig::headless(config.vit), device))) {}

// tokens: [B, N, D] -> [B, D]; mask: [B, N], see Vit::token_mask.
at::Tensor EncoderModel::pool(const at::Tensor& tokens, const at::Tensor& mask) const {
  if (encoder_->config().class_token) return tokens.select(1, 0);
  const auto first = encoder_->config().num_prefix_tokens();
  const auto patches = tokens.narrow(1, first, tokens.size(1) - first);  // [B, n, D]
  if (!mask.defined()) return patches.mean(1);
  const auto weights =
      mask.narrow(1, first, patches.size(1)).unsqueeze(-1).to(patches.scalar_type());  // [B, n, 1]
  return (patches * weights).sum(1) / weights.sum(1);
}

at::Tensor EncoderModel::pooled_features(const ModelInput& input) const {
  return run([&] {
    if (!input.has_patches()) return pool(encoder_->forward_features(input), {});
    const auto mask = encoder_->token_mask(input.patches());
    const auto tokens = encoder_->embed_tokens(input);
    return pool(encoder_->encode(tokens, {}, nullptr, mask), mask);
  });
}

void EncoderModel::init_parameter(const std::string& name, const at::Tensor& value,
                                  uint64_t seed) const {
  if (const auto inner = name_in_encoder(name)) {
    encoder_->init_parameter(*inner, value, seed);
  } else {
    nn::initialize(value, name, seed, own_init(name, value.sizes()));
  }
}

std::vector<std::string> EncoderModel::no_weight_decay() const {
  auto names = own_no_weight_decay();
  for (const auto& name : encoder_->no_weight_decay()) {
    names.push_back(std::string(kEncoderPrefix) + name);
  }
  return names;
}

at::Tensor EncoderModel::adapt_parameter(const std::string& name, const at::Tensor& saved) const {
  const auto inner = name_in_encoder(name);
  return inner ? encoder_->adapt_parameter(*inner, saved) : at::Tensor();
}

bool EncoderModel::is_backbone(const std::string& parameter_name) const {
  return name_in_encoder(parameter_name).has_value();
}

int64_t EncoderModel::layer_id(const std::string& parameter_name) const {
  const auto inner = name_in_encoder(parameter_name);
  return inner ? encoder_->layer_id(*inner) : num_layers() - 1;
}

AttentionView EncoderModel::attention_view() const {
  auto view = encoder_->attention_view();
  view.blocks = std::string(kEncoderPrefix) + view.blocks;
  view.uses_class_token = false;
  view.is_of_features = true;
  return view;
}

}  // namespace fovea::models
