#include "fovea/train/diffusion/feature_backbone.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::train {
namespace {

struct Normalisation {
  std::vector<double> mean, std;
};

// Of the run's evaluation; of the model's preset where there was no run.
Normalisation normalisation_of(const Inference& inference) {
  if (inference.config && inference.config->data.val) {
    for (const auto& transform : (*inference.config->data.val)->transforms()) {
      if (const auto* found = transform.get_if<data::NormalizeConfig>()) {
        return {found->mean, found->std};
      }
    }
    return {{0.0}, {1.0}};
  }
  const auto spec = inference.model->input_spec();
  return {spec.mean, spec.std};
}

// [C, 1, ...] or [1, 1, ...].
at::Tensor per_channel(const std::vector<double>& values, int64_t dims) {
  std::vector<int64_t> shape(static_cast<size_t>(dims) + 1, 1);
  shape[0] = static_cast<int64_t>(values.size());
  return at::tensor(values, at::kDouble).to(at::kFloat).view(shape);
}

}  // namespace

FeatureBackbone::FeatureBackbone(const std::string& target, int64_t in_chans, int64_t dims) {
  const auto inference = load_inference(target, {.device = "cpu"});
  model_ = std::dynamic_pointer_cast<models::Vit>(inference.model);
  if (!model_) {
    fail<ConfigError>("fid_backbone: {} is no ViT classifier; expected a run or weights of one",
                      target);
  }
  const auto spec = model_->input_spec();
  if (spec.in_chans != in_chans || static_cast<int64_t>(spec.img_size.size()) != dims) {
    fail<ConfigError>(
        "fid_backbone: {} takes images of {} channels and {} sides; expected {} and {}, as the "
        "model that it judges",
        target, spec.in_chans, spec.img_size.size(), in_chans, dims);
  }
  const auto normalisation = normalisation_of(inference);
  mean_ = per_channel(normalisation.mean, dims);
  std_ = per_channel(normalisation.std, dims);
}

at::Tensor FeatureBackbone::features(const at::Tensor& pixels) {
  model_->to(pixels.device());
  const auto sides = model_->input_spec().img_size;
  auto images = pixels.to(at::kFloat);
  if (images.sizes().slice(2) != at::IntArrayRef(sides)) {
    images = sides.size() == 2 ? at::upsample_bilinear2d(images, sides, /*align_corners=*/false)
                               : at::upsample_trilinear3d(images, sides, /*align_corners=*/false);
  }
  images = (images - mean_.to(pixels.device())) / std_.to(pixels.device());
  return model_->forward_head(model_->forward_features(images), /*pre_logits=*/true);
}

}  // namespace fovea::train
