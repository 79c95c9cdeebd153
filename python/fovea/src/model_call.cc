#include "python/fovea/src/model_call.h"

#include <ATen/ops/arange.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "fovea/core/error.h"
#include "fovea/models/vit.h"
#include "fovea/nn/forward_context.h"

namespace fovea::python {
namespace {

const models::Vit& vit_of(const models::Model& model) {
  const auto* vit = dynamic_cast<const models::Vit*>(&model);
  if (vit == nullptr) {
    fail<ConfigError>("{}: forward_features and forward_head are a ViT's; call the model itself",
                      model.recipe_name());
  }
  return *vit;
}

at::Tensor part_of_pass(const models::Model& model, const std::string& function,
                        const at::Tensor& x) {
  if (function == "forward") return model.forward(x);
  if (function == "features") return vit_of(model).forward_features(x);
  FOVEA_CHECK(function == "head" || function == "pre_logits",
              "a model has no '{}'; expected forward, features, head or pre_logits", function);
  return vit_of(model).forward_head(x, /*pre_logits=*/function == "pre_logits");
}

}  // namespace

at::Tensor call_model(models::Model& model, const std::string& function, const at::Tensor& x,
                      std::optional<uint64_t> seed) {
  const bool is_training = seed.has_value();
  if (model.is_training() != is_training) model.train(is_training);
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
  std::optional<nn::StepScope> step;
  if (seed) step.emplace(*seed, /*step=*/0, at::arange(x.size(0), at::kLong));
  return part_of_pass(model, function, x);
}

}  // namespace fovea::python
