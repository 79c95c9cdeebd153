// What `fovea bench model` repeats.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>

#include "fovea/data/batch.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/models/registry.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/bench/bench.h"
#include "fovea/train/state/mesh_state.h"
#include "fovea/train/step/stepper.h"

namespace fovea::train {

// A recipe with step-0 weights, whatever it starts from, in one process, whatever it asks for.
TrainConfig one_process_config(TrainConfig config);

// Seconds that `work` takes on the device, from idle to idle.
double seconds_of(c10::Device device, const std::function<void()>& work);

// One batch of noise through the model with step-0 weights: forward alone, or a whole training
// step.
class BenchWorkload {
 public:
  explicit BenchWorkload(const BenchOptions& options);

  void step();

  // See bench_gradients. Takes no step: weights stay.
  nn::NamedTensors gradients();

 private:
  void start_int8();
  void infer();
  void classifier_gradients();
  void train_classifier();
  void train_recipe();

  BenchOptions options_;
  parallel::DeviceMesh mesh_{parallel::World::single(), {}};
  std::optional<MeshState> state_;  // of training as a recipe says
  models::ModelPtr model_;
  data::Batch batch_;
  TensorBatch sample_;  // batch_ on the device; a recipe's training step makes its own
  std::unique_ptr<kernels::WeightCopies> copies_;  // of inference
  std::unique_ptr<optim::Optimizer> optimizer_;    // of a classifier's training, with its copies
  std::optional<Stepper> stepper_;                 // of a recipe
  int64_t step_ = 0;
};

}  // namespace fovea::train
