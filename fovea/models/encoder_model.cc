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

void EncoderModel::init_weights(uint64_t seed) {
  encoder_->init_weights(seed);
  for (const auto& item : named_parameters()) {
    const auto& name = item.key();
    if (name_in_encoder(name)) continue;
    nn::initialize(item.value(), name, seed, own_init(name, item.value().sizes()));
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

}  // namespace fovea::models
