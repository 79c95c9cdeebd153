#include "fovea/train/evaluate/int8_calibration.h"

#include "fovea/core/error.h"
#include "fovea/train/recipe/int8_layers.h"

namespace fovea::train {

Int8Calibration::Int8Calibration(nn::UnitImpl& model, kernels::WeightCopies& copies,
                                 const std::vector<std::string>& skip)
    : copies_(copies), layers_(int8_layers(model, skip)), meters_(layers_.size()) {
  for (const auto& [name, layer] : layers_) check_int8_weight(name, layer->weight);
  for (const auto& [name, layer] : nn::block_linears(model)) copies.use_int8(layer->weight, false);
  for (size_t i = 0; i < layers_.size(); ++i) {
    copies.watch(layers_[i].second->weight, [meter = &meters_[i]](const at::Tensor& rows) {
      meter->add(rows.to(at::kFloat));
    });
  }
}

Int8Calibration::~Int8Calibration() {
  for (const auto& [name, layer] : layers_) copies_.watch(layer->weight, {});
}

Int8Ranges Int8Calibration::ranges(Int8RangeRule rule, int64_t num_samples) const {
  Int8Ranges ranges{.rule = int8_range_rule_name(rule),
                    .num_samples = num_samples,
                    .layers = {},
                    .source = "this calibration"};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& [name, layer] = layers_[i];
    if (!meters_[i].has_values()) {
      fail<ConfigError>(
          "{}: no sample's pass came through this layer, so its inputs have no range; leave it "
          "out (--int8-skip {})",
          name, name);
    }
    if (!meters_[i].are_finite()) {
      fail<DataError>(
          "{}: found inputs that are not finite (NaN, or an infinity), which have no range; "
          "expected numbers alone: look for what makes them in the samples and the weights, or "
          "leave the layer out (--int8-skip {})",
          name, name);
    }
    ranges.layers[name] = {.inputs = meters_[i].range(rule),
                           .weight = int8_weight_checksum(layer->weight)};
  }
  return ranges;
}

}  // namespace fovea::train
