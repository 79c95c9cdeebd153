// Golden files of UCF-VIT's segmentation models (tools/golden/make_ucf_unetr.py, make_ucf_sap.py).
#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fovea/models/encoder_model.h"
#include "fovea/models/variables.h"
#include "fovea/nn/init.h"
#include "fovea/weights/conversion.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models::ucf {

// Config is that of a model with an encoder.
template <class Config>
Config config(const support::Golden& golden) {
  const auto& values = golden.config.at("model");
  auto config = support::config_from_json<Config>(values);
  support::FieldsFromJson reader{values.at("encoder")};
  EncoderConfig::visit(reader, config.encoder);
  return config;
}

// UCF-VIT's tensors under our names, through the table that reads its files.
inline nn::NamedTensors tensors(const support::NamedTensors& theirs) {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : theirs) tensors.emplace_back(name, tensor);
  auto conversion = weights::to_fovea(weights::naming_named("ucf"), std::move(tensors));
  EXPECT_TRUE(conversion.report.unexpected.empty()) << conversion.report.text();
  EXPECT_TRUE(conversion.report.missing.empty()) << conversion.report.text();
  return conversion.tensors;
}

// The gradient of a convolution [D, C, P, P] as that of our projection of adaptive patches.
inline support::NamedTensors expected_gradients(const support::Golden& golden, bool is_adaptive) {
  support::NamedTensors expected;
  for (const auto& [name, tensor] : tensors(golden.group("gradients"))) {
    const bool is_copy = name.starts_with("patch_embed.token_embeds.") &&
                         !name.starts_with("patch_embed.token_embeds.0.");
    if (is_copy) continue;  // a shared tokeniser is named again and again
    const bool is_laid = is_adaptive && name.starts_with("patch_embed.") && tensor.dim() >= 4;
    expected[name] = is_laid ? tensor.movedim(1, -1).flatten(1) : tensor;
  }
  return expected;
}

inline support::NamedTensors expected_outputs(const support::Golden& golden) {
  return {{"logits", golden.at("logits")}, {"loss", golden.at("loss")}};
}

inline PatchInput patches(const support::Golden& golden) {
  const auto sizes = golden.at("sizes");
  return {.tokens = golden.at("tokens").to(at::kDouble),
          .sizes = sizes,
          .centers = golden.at("centers"),
          .padding = at::zeros(sizes.sizes(), at::kBool),
          .images = golden.tensors.contains("images") ? golden.at("images").to(at::kDouble)
                                                      : at::Tensor()};
}

struct Run {
  support::NamedTensors outputs, gradients;
};

// Logits, loss and gradients of a model in float64.
inline Run run(EncoderModel& model, const support::Golden& golden) {
  model.to(at::kDouble);
  model.eval();
  const auto channels = golden.config.at("channels").get<std::vector<std::string>>();
  const auto logits = model.takes_patches()
                          ? model.forward({patches(golden), channels})
                          : model.forward({golden.at("images").to(at::kDouble), channels});
  const auto loss = at::cross_entropy_loss(logits, golden.at("labels").to(at::kLong));
  loss.backward();
  Run run;
  run.outputs = {{"logits", logits.detach().flatten().slice(0, 0, {}, 5)}, {"loss", loss.detach()}};
  for (const auto& item : model.named_parameters()) {
    const auto& name = item.key();
    if (!item.value().grad().defined()) continue;
    run.gradients[name.starts_with("encoder.") ? name.substr(8) : name] = item.value().grad();
  }
  return run;
}

}  // namespace fovea::models::ucf
