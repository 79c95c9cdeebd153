// The model that a run starts from, whole or without values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/models/weights.h"
#include "fovea/parallel/model_parallel.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// Note [Start]
// Where a rank is to have parts of the model alone (tp, or dp_shard with zero 3), the model is
// built on the meta device, and its layers are shared out there. Then make_shards asks for values,
// one parameter at a time: step-0 values, or those of init.weights, made whole, of which this
// rank's part stays. So a start takes a rank's share and one piece, never the whole model. Values
// are those that a whole model would have, bit for bit.
class ModelStart {
 public:
  // Throws what make_model throws.
  ModelStart(const TrainConfig& config, const ComputeOptions& compute);
  ~ModelStart();
  ModelStart(const ModelStart&) = delete;
  ModelStart& operator=(const ModelStart&) = delete;
  // A model that gets none: all of it stays on the meta device.
  static ModelStart without_values(const TrainConfig& config);

  // On the meta device, or with values on the compute device; frozen parameters marked.
  const models::ModelPtr& model() const { return model_; }
  // For make_shards: of the shapes that `layers` has left; empty where the model has its values.
  // This and `layers` outlive it.
  parallel::ParamValues values(const parallel::ModelParallel& layers) const;

 private:
  explicit ModelStart(models::ModelPtr without_values);
  at::Tensor whole(const std::string& name) const;

  uint64_t seed_ = 0;
  at::Device device_ = at::kMeta;
  models::ModelPtr model_;
  std::map<std::string, std::vector<int64_t>> shapes_;  // of whole parameters; empty: has values
  models::FittedWeights file_;                          // what init.weights has of them
};

}  // namespace fovea::train
