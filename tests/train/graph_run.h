// A run whose steps may be recorded, with a tape of operators in a graph's place, and comparisons
// of two such runs.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "fovea/core/log.h"
#include "fovea/train/session.h"
#include "fovea/train/step/step_graph.h"
#include "fovea/train/step/stepper.h"
#include "tests/support/close.h"
#include "tests/support/operator_tape.h"
#include "tests/train/step_pieces.h"

namespace fovea::train::testing {

inline std::unique_ptr<kernels::DeviceGraph> make_tape(c10::Device) {
  return std::make_unique<support::OperatorTape>();
}

// In float64 all but the optimizer's pass is made of operators, as on a GPU.
inline StepOptions graph_options() {
  return {.max_grad_norm = 0.5, .compute = {.dtype = c10::ScalarType::Double}};
}

inline double lr_of(int64_t step) { return 1e-3 * static_cast<double>(step + 1); }

struct PiecesOnDevice : StepPieces {
  PiecesOnDevice(const MakeConfig& make, const ComputeOptions& compute,
                 std::unique_ptr<Task> other_task)
      : StepPieces(make) {
    if (!compute.device.is_cpu()) {
      model = make_model(config, compute);
      task = make_task(config.task, *model);
      optimizer = make_optimizer(config, *model);
    }
    if (other_task) task = std::move(other_task);
  }
};

struct GraphSetup {
  StepOptions options = graph_options();
  StepPieces::MakeConfig make = [](const auto& given) { return tiny_config(given); };
  std::optional<optim::EmaOptions> ema = optim::EmaOptions{.decay = 0.99, .warmup = true};
};

struct GraphRun : PiecesOnDevice {
  explicit GraphRun(GraphSetup setup = {}, std::unique_ptr<Task> other_task = nullptr)
      : PiecesOnDevice(setup.make, setup.options.compute, std::move(other_task)),
        options(std::move(setup.options)) {
    if (setup.ema) ema.emplace(*optimizer, *setup.ema);
    stepper.emplace(StepParts{.model = *model,
                              .task = *task,
                              .optimizer = *optimizer,
                              .options = options,
                              .ema = ema ? &*ema : nullptr},
                    Numbers::kLate);
  }

  StepOptions options;
  std::optional<optim::Ema> ema;
  std::optional<Stepper> stepper;

  void use_tape() { stepper->use_graphs(make_tape, /*is_asked_for=*/false); }

  void take(data::Batch& batch, int64_t step) { stepper->take(batch, step, lr_of(step)); }
};

inline void expect_same_run(GraphRun& actual, GraphRun& expected, const std::string& when) {
  support::expect_same_bits(actual.optimizer->flat_param().cpu(),
                            expected.optimizer->flat_param().cpu(), "weights " + when);
  EXPECT_EQ(actual.optimizer->steps_taken(), expected.optimizer->steps_taken()) << when;
  for (const auto& [name, moment] : actual.optimizer->state()) {
    support::expect_same_bits(moment.cpu(), expected.optimizer->state().at(name).cpu(),
                              name + " " + when);
  }
  if (!actual.ema) return;
  for (const auto& [name, average] : actual.ema->state()) {
    support::expect_same_bits(average.cpu(), expected.ema->state().at(name).cpu(),
                              name + " averaged " + when);
  }
}

inline void expect_same_outcomes(GraphRun& actual, GraphRun& expected) {
  const auto found = actual.stepper->outcomes(), wanted = expected.stepper->outcomes();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    EXPECT_EQ(found[i].loss, wanted[i].loss);
    EXPECT_EQ(found[i].weight, wanted[i].weight);
    EXPECT_EQ(found[i].grad_norm, wanted[i].grad_norm);
    EXPECT_EQ(found[i].sums, wanted[i].sums);
  }
}

// Twelve steps of the tiny run, of which two have the smaller batch.
inline void expect_replays_are_eager_steps(GraphRun& replayed, GraphRun& eager) {
  for (int64_t step = 0; step < 12; ++step) {
    auto batch = eager.source.loader->next();
    replayed.take(batch, step);
    eager.take(batch, step);
    expect_same_run(replayed, eager, "after step " + std::to_string(step));
  }
  EXPECT_EQ(replayed.stepper->num_replays(), 12 - 2 - StepGraph::kWarmUps);
  expect_same_outcomes(replayed, eager);
}

// Steps [begin, end) of both, on one batch.
inline void take_both(GraphRun& first, GraphRun& second, data::Batch& batch, int64_t begin,
                      int64_t end) {
  for (int64_t step = begin; step < end; ++step) {
    first.take(batch, step);
    second.take(batch, step);
  }
}

// What the log says meanwhile.
inline std::string log_of(const std::function<void()>& work) {
  const data::testing::TempDir folder;
  const auto path = folder.file("log");
  {
    const LogFile file(path);
    work();
  }
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace fovea::train::testing
