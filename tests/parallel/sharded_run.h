// Some training steps in float64 with parameters shared out, and what one process computes.
#pragma once

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <cstdint>
#include <memory>
#include <string>

#include "fovea/optim/ema.h"
#include "fovea/parallel/mesh.h"
#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "fovea/train/sharding.h"
#include "fovea/train/step.h"
#include "tests/support/parity.h"
#include "tests/train/model_cases.h"

namespace fovea::train::testing {

struct ShardedRun {
  support::NamedTensors losses, gradients, weights, averages;  // "2/head.weight": of step 2
};

// The mesh of `copies` x the rest of the world.
inline parallel::DeviceMesh sharded_mesh(parallel::World& world, int64_t copies) {
  return {world, parallel::MeshShape{.sizes = {copies, world.size() / copies, 1, 1}}};
}

// A part's values in the place that they have in the whole. Collective where it is a part.
inline at::Tensor joined(const optim::ParamSpec& spec, const at::Tensor& values,
                         parallel::ShardedParams* shards) {
  if (!spec.part) return values.clone();
  auto whole = at::zeros({c10::multiply_integers(spec.shape())}, values.options());
  whole.narrow(0, spec.first(), values.numel()).copy_(values);
  shards->shards().all_reduce(whole, "a part");
  return whole.view(spec.shape());
}

// The pieces of a training, all in float64; or with activations of another dtype and float32
// weights.
struct ShardedTraining {
  ShardedTraining(const TrainConfig& run_config, const parallel::DeviceMesh* mesh,
                  at::ScalarType dtype = at::kDouble)
      : config(run_config),
        source(open_training_data(config, mesh ? data_shard(*mesh) : data::Shard{})),
        model(make_model(config, {})),
        task(make_task(config.task, *model)) {
    if (dtype == at::kDouble) model->to(at::kDouble);
    if (mesh != nullptr) shards = make_shards(config.parallel, *model, *mesh);
    optimizer = make_optimizer(config, *model, shards.get());
    ema = std::make_unique<optim::Ema>(*optimizer, optim::EmaOptions{.decay = 0.7});
    options = {.seed = 7,
               .max_grad_norm = config.trainer.max_grad_norm,
               .max_grad_value = config.trainer.max_grad_value,
               .max_grad_ratio = config.trainer.max_grad_ratio};
    options.compute.dtype = dtype;
    if (mesh != nullptr) options.ranks = &mesh->data_parallel();
    options.shards = shards.get();
  }

  StepOutcome compute(int64_t step) {
    auto batch = source.loader->next();
    return compute_gradients(*model, *task, *optimizer, batch, step, options);
  }

  support::NamedTensors weights() {
    const parallel::ShardedParams::WholeScope whole(shards.get());
    support::NamedTensors result;
    for (const auto& item : model->named_parameters()) {
      result[item.key()] = item.value().detach().clone();
    }
    return result;
  }

  TrainConfig config;
  DataSource source;
  models::ModelPtr model;
  std::unique_ptr<Task> task;
  std::unique_ptr<parallel::ShardedParams> shards;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  StepOptions options;
};

// mesh: null is one process. Three steps; gradients are those after clipping.
inline ShardedRun run_sharded(const TrainConfig& config, const parallel::DeviceMesh* mesh,
                              int64_t micro_batch_size = 0) {
  ShardedTraining training(config, mesh);
  training.options.micro_batch_size = micro_batch_size;
  ShardedRun result;
  for (int64_t step = 0; step < 3; ++step) {
    const auto outcome = training.compute(step);
    const auto name = std::to_string(step) + "/";
    const auto number = [](double value) { return at::full({1}, value, at::kDouble); };
    result.losses[name + "loss"] = number(outcome.loss);
    result.losses[name + "grad_norm"] = number(outcome.grad_norm);
    for (const auto& [sum, value] : outcome.sums) result.losses[name + sum] = number(value);
    for (const auto& spec : training.optimizer->params()) {
      result.gradients[name + spec.name] = joined(spec, spec.param.grad(), training.shards.get());
    }
    training.optimizer->step(1e-3);
    training.ema->update(step);
  }
  result.weights = training.weights();
  const optim::EmaScope average(training.ema.get());
  result.averages = training.weights();
  return result;
}

inline void expect_same_run(const ShardedRun& actual, const ShardedRun& expected,
                            at::ScalarType dtype = at::kDouble) {
  EXPECT_PARITY(actual.losses, expected.losses, dtype);
  EXPECT_PARITY(actual.gradients, expected.gradients, dtype);
  EXPECT_PARITY(actual.weights, expected.weights, dtype);
  EXPECT_PARITY(actual.averages, expected.averages, dtype);
}

}  // namespace fovea::train::testing
