// Some training steps in float64 on any mesh, and what one process computes.
#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/optim/ema.h"
#include "fovea/parallel/mesh.h"
#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "tests/support/parity.h"
#include "tests/train/model_cases.h"
#include "tests/train/step_gradients.h"

namespace fovea::train::testing {

struct ShardedRun {
  support::NamedTensors losses, gradients, weights, averages;  // "2/head.weight": of step 2
};

// The mesh of `copies` x the rest of the world.
inline parallel::DeviceMesh sharded_mesh(parallel::World& world, int64_t copies) {
  return {world, parallel::MeshShape{.sizes = {copies, world.size() / copies, 1, 1}}};
}

// What this rank adds to the whole that a part's values are of.
inline at::Tensor share_of_whole(const optim::ParamSpec& spec, const at::Tensor& values) {
  if (!spec.part) return values.clone();
  auto whole = kernels::spread_part(*spec.part, values);
  return spec.is_counted ? whole : whole.zero_();
}

// The whole that a part's values are of. Collective where it is a part.
inline at::Tensor joined(const optim::ParamSpec& spec, const at::Tensor& values,
                         const Sharing& sharing) {
  auto whole = share_of_whole(spec, values);
  if (spec.part) sharing.sum(whole, "a part");
  return whole;
}

// Sums all of them by one call of `sum`, in place: so small, a collective costs the same for each.
inline void sum_at_once(const std::vector<at::Tensor>& tensors,
                        const std::function<void(const at::Tensor&)>& sum) {
  if (tensors.empty()) return;
  std::vector<at::Tensor> flat;
  for (const auto& tensor : tensors) flat.push_back(tensor.flatten());
  const auto all = at::cat(flat);
  sum(all);
  int64_t begin = 0;
  for (const auto& tensor : tensors) {
    tensor.copy_(all.narrow(0, begin, tensor.numel()).view_as(tensor));
    begin += tensor.numel();
  }
}

// The whole gradients of parameters, by name. Collective where they are parts.
inline support::NamedTensors joined_gradients(const std::vector<optim::ParamSpec>& params,
                                              const Sharing& sharing) {
  support::NamedTensors result;
  std::vector<at::Tensor> parts;
  for (const auto& spec : params) {
    const auto& whole = result[spec.name] = share_of_whole(spec, spec.param.grad());
    if (spec.part) parts.push_back(whole);
  }
  sum_at_once(parts, [&](const at::Tensor& all) { sharing.sum(all, "parts"); });
  return result;
}

// What a training is made from. Without a mesh one process has all, whatever the config says.
struct TrainingOrigin {
  TrainingOrigin(TrainConfig run_config, const parallel::DeviceMesh* run_mesh, at::ScalarType dtype)
      : own_config(run_mesh ? run_config : in_one_process(run_config)),
        own_mesh(run_mesh ? *run_mesh : parallel::DeviceMesh(parallel::World::single(), {})),
        start(own_config, {}) {
    own_config.trainer.ema = {.enabled = true, .decay = 0.7, .warmup = false};
    if (dtype == at::kDouble) start.model()->to(at::kDouble);
  }

  static TrainConfig in_one_process(TrainConfig config) {
    config.parallel = {};
    return config;
  }

  TrainConfig own_config;
  parallel::DeviceMesh own_mesh;
  ModelStart start;
};

// The state of a training with its data, all in float64; or with activations of another dtype and
// float32 weights.
struct ShardedTraining : TrainingOrigin, MeshState {
  ShardedTraining(const TrainConfig& run_config, const parallel::DeviceMesh* run_mesh,
                  at::ScalarType dtype = at::kDouble)
      : TrainingOrigin(run_config, run_mesh, dtype),
        MeshState(own_config, own_mesh, start,
                  step_options(own_config, {.device = at::kCPU, .dtype = dtype})),
        source(open_training_data(own_config, data_share(own_mesh, own_config.parallel))) {
    options.seed = 7;
    options.micro_batch_size = 0;
  }

  StepOutcome compute(int64_t step) {
    auto batch = source.loader->next();
    return testing::gradients_of_step(*model, *task, *optimizer, batch, step, options);
  }

  support::NamedTensors weights() {
    const parallel::ShardedParams::WholeScope whole(shards.get());
    support::NamedTensors result;
    std::vector<at::Tensor> cuts;
    for (const auto& item : model->named_parameters()) {
      result[item.key()] = item.value().detach().clone();
      const auto cut = model_parallel->cut_of(item.key());
      if (!cut) continue;
      const auto part = kernels::all_of_cut(item.value().sizes(), *cut);
      cuts.push_back(result[item.key()] = kernels::spread_part(part, item.value().detach()));
    }
    sum_at_once(cuts, [&](const at::Tensor& all) { model_parallel->tp().all_reduce(all, "cuts"); });
    return result;
  }

  DatasetWithLoader source;
};

// mesh: null is one process. Two steps, of which the second one goes by what the first one left:
// its update and its moments. Gradients are those after clipping.
inline ShardedRun run_sharded(const TrainConfig& config, const parallel::DeviceMesh* mesh,
                              int64_t micro_batch_size = 0) {
  ShardedTraining training(config, mesh);
  training.options.micro_batch_size = micro_batch_size;
  ShardedRun result;
  for (int64_t step = 0; step < 2; ++step) {
    const auto outcome = training.compute(step);
    const auto name = std::to_string(step) + "/";
    const auto number = [](double value) { return at::full({1}, value, at::kDouble); };
    result.losses[name + "loss"] = number(outcome.loss);
    result.losses[name + "weight"] = number(outcome.weight);
    result.losses[name + "grad_norm"] = number(outcome.grad_norm);
    for (const auto& [sum, value] : outcome.sums) result.losses[name + sum] = number(value);
    for (auto& [param, gradient] :
         joined_gradients(training.optimizer->params(), training.sharing())) {
      result.gradients[name + param] = std::move(gradient);
    }
    training.optimizer->step(1e-3);
    training.ema->update(step);
  }
  result.weights = training.weights();
  training.check_same_weights();
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

// Calls body(config, dtype) with every optimizer and, of each, every clipping; dtype: that of the
// tolerance.
template <class Body>
void for_every_optimizer_and_clipping(TrainConfig config, Body body) {
  optim::AdamWConfig adamw;
  adamw.layer_decay = 0.6;
  optim::LambConfig lamb, decoupled;
  decoupled.decoupled_decay = decoupled.always_adapt = decoupled.trust_clip = true;
  optim::MuonConfig muon;
  muon.split_qkv = true;
  const std::vector<optim::OptimConfig> optimizers = {
      {adamw}, {optim::SgdConfig{}}, {lamb}, {decoupled}, {optim::AdafactorConfig{}}, {muon}};
  for (const auto& optimizer : optimizers) {
    config.optim = optimizer;
    const bool is_muon = optimizer.get_if<optim::MuonConfig>() != nullptr;
    for (int clipping = 0; clipping < 3; ++clipping) {
      config.trainer.max_grad_norm = clipping < 2 ? 0.1 : 0;
      config.trainer.max_grad_value = clipping == 1 ? 0.01 : 0;
      config.trainer.max_grad_ratio = clipping == 2 ? 0.01 : 0;
      SCOPED_TRACE(
          fmt::format("optimizer {}, clipping {}", &optimizer - optimizers.data(), clipping));
      body(config, is_muon ? at::kFloat : at::kDouble);  // Muon's iteration is in float32 always
    }
  }
}

}  // namespace fovea::train::testing
