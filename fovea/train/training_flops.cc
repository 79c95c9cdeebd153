#include "fovea/train/training_flops.h"

#include "fovea/models/summary.h"

namespace fovea::train {

double training_flops_per_image(const models::ModelConfig& model) {
  const auto on_meta = models::build_model(model, at::kMeta);
  return 3 * static_cast<double>(models::summarize(*on_meta).product_flops);
}

}  // namespace fovea::train
