#include "python/fovea/src/model_call.h"

#include <ATen/ops/arange.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/norm.h"
#include "fovea/parallel/recompute.h"

namespace fovea::python {
namespace {

// What a pass runs in: the mode, the draws, and no casts of autocast.
class PassScope {
 public:
  PassScope(models::Model& model, int64_t batch_size, std::optional<uint64_t> seed)
      : without_autocast_(c10::autocast_dispatch_keyset) {
    const bool is_training = seed.has_value();
    if (model.is_training() != is_training) model.train(is_training);
    if (seed) step_.emplace(*seed, /*step=*/0, at::arange(batch_size, at::kLong));
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard without_autocast_;
  std::optional<nn::StepScope> step_;
};

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
  const PassScope scope(model, x.size(0), seed);
  return part_of_pass(model, function, x);
}

std::vector<at::Tensor> call_blocks(models::Model& model, const at::Tensor& x,
                                    const std::vector<int64_t>& blocks, bool with_norm,
                                    std::optional<uint64_t> seed) {
  const auto& vit = vit_of(model);
  if (seed && vit.config().patch_drop_rate > 0) {
    fail<ConfigError>(
        "model.patch_drop_rate is {}: tokens after a block are then some of the patches; "
        "call eval() first, or make the model without",
        vit.config().patch_drop_rate);
  }
  const PassScope scope(model, x.size(0), seed);
  std::vector<at::Tensor> found;
  auto last = vit.encode(vit.add_prefix(vit.embed_patches(x)), blocks, &found);
  const auto* norm = model.named_children().find("norm");
  if (with_norm && norm != nullptr) {
    for (auto& tokens : found) tokens = dynamic_cast<const nn::NormImpl&>(**norm).forward(tokens);
  }
  found.push_back(std::move(last));
  return found;
}

void recompute_blocks(models::Model& model, bool is_on) {
  for (const auto& module : model.modules()) {
    if (auto* unit = dynamic_cast<nn::UnitImpl*>(module.get())) unit->around_forward.clear();
  }
  if (is_on) parallel::recompute_in_backward(model, "block", /*every=*/1);
}

const models::Vit& vit_of(const models::Model& model) {
  const auto* vit = dynamic_cast<const models::Vit*>(&model);
  if (vit == nullptr) {
    fail<ConfigError>(
        "{}: parts of a pass, forward_features and the like, are a ViT's; call the model "
        "itself",
        model.recipe_name());
  }
  return *vit;
}

}  // namespace fovea::python
