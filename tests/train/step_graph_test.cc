// Steps that are recorded and replayed, with a tape of operators in a graph's place: what a
// recorded step has of the host's numbers is stale there, too.
#include "fovea/train/step/step_graph.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <limits>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "tests/support/gpu_test.h"
#include "tests/train/graph_run.h"

namespace fovea::train {
namespace {

using testing::expect_replays_are_eager_steps;
using testing::expect_same_run;
using testing::graph_options;
using testing::GraphRun;
using testing::GraphSetup;
using testing::log_of;
using testing::take_both;

constexpr int kStepsUntilReplay = StepGraph::kWarmUps;

class StepGraphTest : public ::testing::TestWithParam<int64_t> {};  // micro_batch_size

// Dropout, drop path, clipping, a learning rate and an average's weight that change with each step,
// and a fifth batch that is smaller.
TEST_P(StepGraphTest, ReplaysAreTheEagerStepsBitForBit) {
  auto options = graph_options();
  options.micro_batch_size = GetParam();
  GraphRun replayed({.options = options}), eager({.options = options});
  replayed.use_tape();
  expect_replays_are_eager_steps(replayed, eager);
}

INSTANTIATE_TEST_SUITE_P(MicroBatches, StepGraphTest, ::testing::Values(0, 7, 12));

using StepGraphCudaTest = support::GpuTest<>;

// The same on a GPU, with CUDA's graphs.
TEST_F(StepGraphCudaTest, ReplaysAreTheEagerStepsBitForBit) {
  const c10::Device gpu(c10::kCUDA, 0);
  // The others' backward passes may add with atomics.
  kernels::choose_attention("math", gpu);
  for (const auto dtype : {c10::ScalarType::Float, c10::ScalarType::BFloat16}) {
    for (const int64_t micro_batch_size : {0, 7}) {
      const StepOptions options{.micro_batch_size = micro_batch_size,
                                .max_grad_norm = 0.5,
                                .compute = {.device = gpu, .dtype = dtype}};
      GraphRun replayed({.options = options}), eager({.options = options});
      replayed.stepper->use_graphs(kernels::make_device_graph, /*is_asked_for=*/true);
      expect_replays_are_eager_steps(replayed, eager);
    }
  }
  kernels::choose_attention("auto", gpu);
}

TEST(StepGraphDropTest, DrawsOtherMasksForEachReplay) {
  // The same batch and weights: what differs is what is dropped.
  GraphRun run;
  run.use_tape();
  auto batch = run.source.loader->next();
  for (int64_t step = 0; step < 8; ++step) run.stepper->take(batch, step, /*lr=*/0);
  const auto outcomes = run.stepper->outcomes();
  EXPECT_EQ(run.stepper->num_replays(), 8 - kStepsUntilReplay);
  for (size_t i = 1; i < outcomes.size(); ++i) EXPECT_NE(outcomes[i].loss, outcomes[i - 1].loss);
}

TEST(StepGraphResumeTest, StateOfTheMiddleGoesOnBitForBit) {
  GraphRun replayed, eager;
  replayed.use_tape();
  auto batch = eager.source.loader->next();
  take_both(replayed, eager, batch, 0, 6);
  GraphRun resumed;
  resumed.use_tape();
  resumed.optimizer->flat_param().copy_(replayed.optimizer->flat_param());
  resumed.optimizer->load_state(replayed.optimizer->state(), replayed.optimizer->steps_taken());
  resumed.ema->load_state(replayed.ema->state());
  take_both(resumed, eager, batch, 6, 12);
  EXPECT_GT(resumed.stepper->num_replays(), 0);
  expect_same_run(resumed, eager, "at the end");
}

// As an evaluation does: weights change by other means between two replays.
TEST(StepGraphAverageTest, GoesOnAfterTheAverageWasSwappedIn) {
  GraphRun replayed, eager;
  replayed.use_tape();
  auto batch = eager.source.loader->next();
  for (int64_t step = 0; step < 8; ++step) {
    for (auto* run : {&replayed, &eager}) {
      run->take(batch, step);
      const optim::EmaScope with_average(&*run->ema);
      const at::NoGradGuard no_grad;
      run->model->train(false);
      forward(*run->model, to_tensors(batch, 0, 4, run->options.compute));
      run->model->train(true);
    }
  }
  expect_same_run(replayed, eager, "at the end");
}

TEST(StepGraphDivergedTest, WhatIsNotFiniteStaysSo) {
  GraphRun run;
  run.use_tape();
  auto batch = run.source.loader->next();
  for (int64_t step = 0; step < 5; ++step) run.take(batch, step);
  const auto weights = run.optimizer->flat_param().clone();
  auto bad = batch;
  bad.images[5] = std::numeric_limits<float>::quiet_NaN();
  run.take(bad, 5);
  run.take(batch, 6);
  EXPECT_EQ(run.stepper->num_replays(), 7 - kStepsUntilReplay);
  EXPECT_THROW(run.stepper->outcomes(), DivergedError);
  support::expect_same_bits(run.optimizer->flat_param(), weights, "weights");
}

TEST(StepGraphCheckTest, LabelsAreCheckedBeforeEachReplay) {
  GraphRun run;
  run.use_tape();
  auto batch = run.source.loader->next();
  for (int64_t step = 0; step < 5; ++step) run.take(batch, step);
  const auto steps_taken = run.optimizer->steps_taken();
  batch.labels[3] = 4;
  EXPECT_THROW(run.take(batch, 5), DataError);
  EXPECT_EQ(run.optimizer->steps_taken(), steps_taken);
}

// A loss that depends on what is no tensor of the batch.
class HostTask : public Task {
 public:
  enum class Fault { kBakesIn, kWaits, kDraws };
  HostTask(std::unique_ptr<Task> inner, Fault fault) : inner_(std::move(inner)), fault_(fault) {}
  std::vector<std::string> metric_names() const override { return inner_->metric_names(); }
  kernels::Recordable can_be_recorded() const override { return {}; }  // wrongly
  LossParts loss(models::Model& model, const TensorBatch& batch) const override {
    auto parts = inner_->loss(model, batch);
    ++num_losses_;
    if (fault_ == Fault::kBakesIn) parts.loss_sum = parts.loss_sum * num_losses_;
    if (fault_ == Fault::kWaits) parts.weight = parts.loss_sum.item<double>();
    if (fault_ == Fault::kDraws) kernels::refuse_recording("draws of the host");
    return parts;
  }
  std::unique_ptr<Evaluation> start_evaluation() const override {
    return inner_->start_evaluation();
  }

 private:
  std::unique_ptr<Task> inner_;
  Fault fault_;
  mutable int64_t num_losses_ = 0;
};

GraphRun& with_fault(std::optional<GraphRun>& run, HostTask::Fault fault) {
  testing::StepPieces pieces;
  run.emplace(GraphSetup(), std::make_unique<HostTask>(std::move(pieces.task), fault));
  return *run;
}

// What the tests above rely on: a number of the host that is not asked for again is a stale one.
TEST(StepGraphTapeTest, ShowsANumberThatIsBakedIn) {
  std::optional<GraphRun> first, second;
  auto& replayed = with_fault(first, HostTask::Fault::kBakesIn);
  auto& eager = with_fault(second, HostTask::Fault::kBakesIn);
  replayed.use_tape();
  auto batch = eager.source.loader->next();
  take_both(replayed, eager, batch, 0, kStepsUntilReplay);
  expect_same_run(replayed, eager, "before replays");
  take_both(replayed, eager, batch, kStepsUntilReplay, 6);
  EXPECT_FALSE(at::equal(replayed.optimizer->flat_param(), eager.optimizer->flat_param()));
}

TEST(StepGraphFallBackTest, StepsGoOnEagerlyWhereRecordingFails) {
  for (const auto& [fault, reason] : {std::pair{HostTask::Fault::kWaits, "has the host wait"},
                                      std::pair{HostTask::Fault::kDraws, "draws of the host"}}) {
    std::optional<GraphRun> first, second;
    auto& replayed = with_fault(first, fault);
    auto& eager = with_fault(second, fault);
    replayed.use_tape();
    auto batch = eager.source.loader->next();
    const auto log = log_of([&] {
      for (int64_t step = 0; step < 6; ++step) {
        replayed.take(batch, step);
        eager.take(batch, step);
        expect_same_run(replayed, eager, "after step " + std::to_string(step));
      }
    });
    EXPECT_EQ(replayed.stepper->num_replays(), 0);
    const auto said = log.find("device.cuda_graph: steps are not recorded");
    ASSERT_NE(said, std::string::npos) << log;
    EXPECT_EQ(log.find("device.cuda_graph", said + 1), std::string::npos) << log;
    EXPECT_NE(log.find(reason), std::string::npos) << log;
  }
}

TEST(StepGraphFallBackTest, SaysWhyNothingIsRecorded) {
  GraphRun run;
  const auto why = [&](const StepOptions& options) {
    return why_not_recorded({*run.model, *run.task, *run.optimizer, options});
  };
  EXPECT_EQ(why({}), "");
  optim::GradScaler scaler({});
  EXPECT_NE(why({.scaler = &scaler}).find("scale of the loss"), std::string::npos);
  auto config = run.config;
  optim::SgdConfig sgd;
  config.optim = {sgd};
  const auto model = make_model(config, {});
  const auto optimizer = make_optimizer(config, *model);
  EXPECT_NE(why_not_recorded({*model, *run.task, *optimizer, {}}).find("optimizer"),
            std::string::npos);
  auto& vit = std::get<models::VitConfig>(config.model.value);
  const auto of_model = [&] {
    const auto other = make_model(config, {});
    return why_not_recorded({*other, *run.task, *run.optimizer, {}});
  };
  EXPECT_EQ(of_model(), "");
  vit.drop_path_skip = true;
  EXPECT_EQ(of_model(), "with drop_path_skip the host chooses the samples of each block");
  vit.drop_path_rate = 0;
  EXPECT_EQ(of_model(), "");
  GraphRun at_once({.options = {.max_grad_value = 0.1}});
  const auto log = log_of([&] { at_once.use_tape(); });
  EXPECT_NE(log.find("steps are not recorded, as the host has each step's numbers at once"),
            std::string::npos)
      << log;
}

TEST(StepGraphFallBackTest, DevicesWithoutGraphsTakeStepsAsEver) {
  GraphRun run, eager;
  auto batch = eager.source.loader->next();
  run.stepper->use_graphs(kernels::make_device_graph, /*is_asked_for=*/true);
  take_both(run, eager, batch, 0, 5);
  EXPECT_EQ(run.stepper->num_replays(), 0);
  expect_same_run(run, eager, "at the end");
}

TEST(StepGraphConfigTest, OnIsAnErrorOnTheCpu) {
  GraphRun run;
  DeviceConfig config{.type = "cpu"};
  for (const auto* choice : {"off", "auto"}) {
    config.cuda_graph = choice;
    use_graphs(*run.stepper, config, at::kCPU);
  }
  config.cuda_graph = "on";
  EXPECT_THROW(use_graphs(*run.stepper, config, at::kCPU), ConfigError);
}

}  // namespace
}  // namespace fovea::train
