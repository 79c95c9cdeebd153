// trainer.concurrent_passes: the bits of passes that come one after another.
#include "fovea/train/step/concurrent_passes.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/parallel/slot_reducer.h"
#include "fovea/train/bench/machine.h"
#include "fovea/train/recipe/model_identity.h"
#include "fovea/train/step/pass_size.h"
#include "tests/support/close.h"
#include "tests/train/model_cases.h"
#include "tests/train/run_check.h"
#include "tests/train/step_pieces.h"

namespace fovea::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ModelCase;
using ::testing::Not;
using testing::StepPieces;

// What a step comes to before the update.
struct PassedSums {
  at::Tensor gradients, numbers;
  double weight = 0;
};

void expect_same_sums(const PassedSums& actual, const PassedSums& expected) {
  support::expect_same_bits(actual.gradients, expected.gradients, "gradients");
  support::expect_same_bits(actual.numbers, expected.numbers, "numbers");
  EXPECT_EQ(actual.weight, expected.weight);
}

// A batch of some pieces, taken in other ways; no weight changes.
struct TakenStep {
  explicit TakenStep(StepPieces& step_pieces)
      : pieces(step_pieces), batch(pieces.source.loader->next()) {
    batch.global_size = 0;  // no loader's: all of it is this process's
    options.micro_batch_size = 3;
    at::set_num_threads(1);
  }
  ~TakenStep() { at::set_num_threads(threads_before); }

  // A thread each: of what is libtorch's own, convolutions for one, the number makes bits.
  PassedSums sums(int64_t workers, const Task* task = nullptr) {
    at::set_num_threads(static_cast<int>(workers));
    ConcurrentPasses concurrent(workers, workers, c10::kCPU);
    options.concurrent = workers > 1 ? &concurrent : nullptr;
    const StepParts parts{.model = *pieces.model,
                          .task = task ? *task : *pieces.task,
                          .optimizer = *pieces.optimizer,
                          .options = options};
    const auto prepared = prepare_step(parts, batch, 5);
    EXPECT_TRUE(prepared.sums.numbers.defined());
    return {pieces.optimizer->flat_grad().clone(), prepared.sums.numbers, prepared.sums.weight};
  }

  StepPieces& pieces;
  data::Batch batch;
  StepOptions options;
  int threads_before = at::get_num_threads();
};

class EveryModelAtOnceTest : public ::testing::TestWithParam<ModelCase> {
 protected:
  StepPieces pieces_{
      [](const data::testing::TempDir& folder) { return GetParam().config(folder); }};
  TakenStep taken_{pieces_};
};

// Passes of 3 samples, of which the last may have fewer; then those of slots.
TEST_P(EveryModelAtOnceTest, HasTheBitsOfOneAfterAnother) {
  const auto expected = taken_.sums(1);
  EXPECT_GT(expected.gradients.abs().sum().item<double>(), 0);
  for (const int64_t workers : {2, 3}) expect_same_sums(taken_.sums(workers), expected);
  if (pieces_.task->has_loss_of_batch()) return;  // has no slots
  parallel::SlotReducer reducer(pieces_.optimizer->flat_grad(), parallel::one_rank());
  taken_.options.sync = &reducer;
  taken_.options.slots = 5;
  taken_.options.micro_batch_size = 2;
  const auto in_slots = taken_.sums(1);
  expect_same_sums(taken_.sums(3), in_slots);
}

INSTANTIATE_TEST_SUITE_P(All, EveryModelAtOnceTest, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Losses that fail in passes of some samples.
class FailingPasses : public Task {
 public:
  using Fail = std::function<void(const TensorBatch& batch)>;
  FailingPasses(const Task& task, Fail fail) : task_(task), fail_(std::move(fail)) {}

  std::vector<std::string> metric_names() const override { return task_.metric_names(); }
  LossParts loss(models::Model& model, const TensorBatch& batch) const override {
    fail_(batch);
    return task_.loss(model, batch);
  }
  std::unique_ptr<Evaluation> start_evaluation() const override { return task_.start_evaluation(); }

 private:
  const Task& task_;
  Fail fail_;
};

bool has_row(const TensorBatch& batch, int64_t row) {
  return (batch.rows == row).any().item<bool>();
}

TEST(ConcurrentPassesTest, APassThatFailsEndsTheStepAndTheNextOneIsAsAny) {
  StepPieces pieces;
  TakenStep taken(pieces);
  const auto expected = taken.sums(1);
  // In the passes 3 and 4, which are at work at the same time.
  const FailingPasses task(*pieces.task, [](const TensorBatch& batch) {
    if (has_row(batch, 9)) fail<DataError>("sample of row 9");
    if (has_row(batch, 12)) fail<DataError>("sample of row 12");
  });
  for (int round = 0; round < 5; ++round) {
    try {
      taken.sums(2, &task);
      ADD_FAILURE() << "no pass failed";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("row 9"));
    }
    expect_same_sums(taken.sums(2), expected);
  }
}

TEST(ConcurrentPassesTest, PassesThatAreTooLargeAreHalvedAsElsewhere) {
  StepPieces pieces;
  TakenStep taken(pieces);
  const auto expected = taken.sums(1);
  const FailingPasses task(*pieces.task, [](const TensorBatch& batch) {
    if (batch.rows.size(0) > 3) throw std::bad_alloc();
  });
  PassSize passes(12);
  taken.options.passes = &passes;
  expect_same_sums(taken.sums(2, &task), expected);
  EXPECT_EQ(passes.size(), 3);
  taken.options.passes = nullptr;
  taken.options.micro_batch_size = 6;
  EXPECT_THROW(taken.sums(2, &task), std::bad_alloc);
}

TEST(ConcurrentPassesTest, WhatIsFoundChangesNoBitAndIsOneOfTheCandidates) {
  StepPieces pieces;
  TakenStep taken(pieces);
  const auto expected = taken.sums(1);
  ConcurrentPasses concurrent(0, 4, c10::kCPU);
  std::set<int64_t> tried;
  int64_t steps = 0;
  for (; !concurrent.is_settled(); ++steps) {
    ASSERT_LT(steps, 100);
    tried.insert(concurrent.at_once(100, 1));
    taken.options.concurrent = &concurrent;
    const StepParts parts{.model = *pieces.model,
                          .task = *pieces.task,
                          .optimizer = *pieces.optimizer,
                          .options = taken.options};
    const auto prepared = prepare_step(parts, taken.batch, 5);
    expect_same_sums(
        {pieces.optimizer->flat_grad().clone(), prepared.sums.numbers, prepared.sums.weight},
        expected);
  }
  EXPECT_EQ(tried, (std::set<int64_t>{1, 2, 4}));
  EXPECT_EQ(steps, 18);
  EXPECT_EQ(tried.count(concurrent.at_once(100, 1)), 1u);
}

TEST(ConcurrentPassesTest, TheFasterNumberIsTaken) {
  for (const bool is_faster : {true, false}) {
    ConcurrentPasses concurrent(0, 2, c10::kCPU);
    while (!concurrent.is_settled()) {
      const int64_t number = concurrent.at_once(100, 1);
      const bool is_slow = (number == 1) == is_faster;
      concurrent.run(
          8, 8, [&] { std::this_thread::sleep_for(std::chrono::milliseconds(is_slow ? 20 : 2)); });
    }
    EXPECT_EQ(concurrent.at_once(100, 1), is_faster ? 2 : 1);
  }
}

// Steps of one pass leave nothing to choose.
TEST(ConcurrentPassesTest, NumbersThatNoStepHasPassesForAreNotTaken) {
  ConcurrentPasses concurrent(0, 4, c10::kCPU);
  for (int step = 0; step < 18; ++step) {
    EXPECT_EQ(concurrent.at_once(1, 1), 1);
    concurrent.run(1, 8, [] {});
  }
  EXPECT_TRUE(concurrent.is_settled());
  EXPECT_EQ(concurrent.at_once(100, 1), 1);
  EXPECT_EQ(ConcurrentPasses(3, 4, c10::kCPU).at_once(1, 1), 3);
}

TEST(ConcurrentPassesTest, WhereMemoryRunsOutAutoTakesFewer) {
  StepPieces pieces;
  TakenStep taken(pieces);
  const auto expected = taken.sums(1);
  // No room for a second pass.
  const FailingPasses task(*pieces.task, [main = std::this_thread::get_id()](const TensorBatch&) {
    if (std::this_thread::get_id() != main) throw std::bad_alloc();
  });
  ConcurrentPasses concurrent(0, 4, c10::kCPU);
  taken.options.concurrent = &concurrent;
  const StepParts parts{.model = *pieces.model,
                        .task = task,
                        .optimizer = *pieces.optimizer,
                        .options = taken.options};
  for (int step = 0; step < 6; ++step) {
    const auto prepared = prepare_step(parts, taken.batch, 5);
    expect_same_sums(
        {pieces.optimizer->flat_grad().clone(), prepared.sums.numbers, prepared.sums.weight},
        expected);
  }
  EXPECT_TRUE(concurrent.is_settled());
  EXPECT_EQ(concurrent.at_once(100, 1), 1);
  ConcurrentPasses given(2, 2, c10::kCPU);
  EXPECT_FALSE(given.take_fewer(2));
}

// Each step has the number that fits its passes, and no bit hangs on it.
TEST(ConcurrentPassesTest, WhatIsKnownOfPassesIsNotTried) {
  StepPieces pieces;
  TakenStep taken(pieces);
  const auto expected = taken.sums(1);
  std::vector<std::pair<int64_t, int64_t>> asked;
  ConcurrentPasses concurrent(
      [&](int64_t count, int64_t samples) {
        asked.emplace_back(count, samples);
        return 3;
      },
      4, c10::kCPU);
  EXPECT_TRUE(concurrent.is_settled());
  taken.options.concurrent = &concurrent;
  const StepParts parts{.model = *pieces.model,
                        .task = *pieces.task,
                        .optimizer = *pieces.optimizer,
                        .options = taken.options};
  const auto prepared = prepare_step(parts, taken.batch, 5);
  expect_same_sums(
      {pieces.optimizer->flat_grad().clone(), prepared.sums.numbers, prepared.sums.weight},
      expected);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_GT(asked[0].first, 3);
  EXPECT_EQ(asked[0].second, taken.options.micro_batch_size);
  EXPECT_EQ(concurrent.at_once(2, 1), 2);  // no more than there are passes
  EXPECT_EQ(concurrent.at_once(1, 1), 1);
  EXPECT_TRUE(concurrent.take_fewer(3));
  EXPECT_EQ(concurrent.at_once(8, 1), 1);
}

class ConcurrentRunTest : public ::testing::Test {
 protected:
  FitResult fit(const std::string& run, std::optional<int64_t> passes,
                const std::function<void(TrainConfig&)>& change = {}) {
    auto config = config_;
    config.run.dir = folder_.file(run);
    config.trainer.concurrent_passes = passes;
    if (change) change(config);
    return testing::fit(config);
  }

  data::testing::TempDir folder_;
  TrainConfig config_ = [this] {
    auto config = testing::tiny_config(folder_);
    config.trainer.micro_batch_size = 5;
    config.trainer.max_steps = 8;
    config.data.val = {};
    return config;
  }();
};

TEST_F(ConcurrentRunTest, IsTheRunOfOneAfterAnotherAndGoesOnWithAnother) {
  fit("one", 1);
  fit("two", 2);
  testing::expect_same_run(folder_.file("two"), folder_.file("one"));
  testing::go_back_to(folder_.file("two"), 4);
  fit("two", 3);
  testing::expect_same_run(folder_.file("two"), folder_.file("one"));
  testing::go_back_to(folder_.file("two"), 4);
  fit("two", {});
  testing::expect_same_run(folder_.file("two"), folder_.file("one"));
}

TEST_F(ConcurrentRunTest, HasTheScaleOfOneAfterAnother) {
  const auto scaled = [](TrainConfig& config) {
    config.device.dtype = "float16";
    config.trainer.grad_scaler.growth_interval = 2;
    config.trainer.grad_scaler.init_scale = 16;  // of which no step is left out
  };
  fit("one", 1, scaled);
  fit("two", 2, scaled);
  testing::expect_same_run(folder_.file("two"), folder_.file("one"));
}

TEST_F(ConcurrentRunTest, RecomputesWithTheSameBits) {
  const auto recomputed = [](TrainConfig& config) { config.parallel.recompute = "block"; };
  fit("one", 1, recomputed);
  fit("two", 2, recomputed);
  testing::expect_same_run(folder_.file("two"), folder_.file("one"));
}

// A profile of this recipe on this machine, on which two at once take half the time.
class ProfiledRunTest : public ConcurrentRunTest {
 protected:
  ProfiledRunTest() { config_.trainer.max_steps = 2; }
  ~ProfiledRunTest() override { at::set_num_threads(threads_before_); }

  void write_profile(const std::string& dtype, int64_t threads) {
    elastic::ProfileSet set{.model = model_identity(config_.model), .bucket_megabytes = {1}};
    elastic::DeviceProfile device{
        .fingerprint = fingerprint_of(c10::kCPU, threads), .model = set.model, .dtype = dtype};
    for (const int64_t concurrent : {1, 2}) {
      device.computation.push_back(
          {.local_batch = 8, .concurrent = concurrent, .forward_ms = 4, .backward_ms = 6});
    }
    device.memory = {{.local_batch = 8, .max_concurrent = 2}};
    set.devices = {device};
    elastic::write_profiles(set, folder_.file("profiles"));
  }
  void fit_auto(const std::string& run) {
    fit(run, {}, [this](TrainConfig& config) {
      config.device.threads = 2;
      config.elastic.profile_dir = folder_.file("profiles");
    });
  }
  std::string log_of(const std::string& run) {
    return read_file(folder_.file(run + "/train.log"), 1 << 20);
  }

 private:
  int threads_before_ = at::get_num_threads();
};

TEST_F(ProfiledRunTest, AutoGoesByAProfile) {
  write_profile("float32", 2);
  fit("two", 2, [](TrainConfig& config) { config.device.threads = 2; });
  fit_auto("auto");
  testing::expect_same_run(folder_.file("auto"), folder_.file("two"));
  const auto log = log_of("auto");
  EXPECT_THAT(log, HasSubstr("trainer.concurrent_passes: 2 at once of 5 passes of 5 samples"));
  EXPECT_THAT(log, Not(HasSubstr("from here on")));
}

TEST_F(ProfiledRunTest, AProfileOfAnotherKindOfDeviceSaysNothing) {
  write_profile("float32", 7);
  fit_auto("auto");
  EXPECT_THAT(log_of("auto"), HasSubstr("the first steps try them"));
}

TEST_F(ProfiledRunTest, AProfileOfAnotherModelOrDtypeIsRefused) {
  write_profile("bfloat16", 2);
  EXPECT_THAT(data::testing::message_of<DataError>([&] { fit_auto("auto"); }),
              AllOf(HasSubstr("elastic.profile_dir"), HasSubstr("in bfloat16, and the run is of")));
  auto vit = *config_.model.get_if<models::VitConfig>();
  vit.depth = 1;
  config_.model = {vit};
  write_profile("float32", 2);
  vit.depth = 2;
  config_.model = {vit};
  EXPECT_THAT(data::testing::message_of<DataError>([&] { fit_auto("auto"); }),
              HasSubstr("depth=1"));
}

// A number that was given and cannot be is refused; auto then takes one.
TEST_F(ConcurrentRunTest, FeaturesOfAFrozenBackboneComeOneAfterAnother) {
  const auto frozen = [](TrainConfig& config) { config.trainer.freeze = {"backbone"}; };
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { fit("two", 2, frozen); }),
              HasSubstr("trainer.concurrent_passes: found 2, but the features of a frozen"));
  EXPECT_EQ(fit("auto", {}, frozen).step, 8);
}

TEST_F(ConcurrentRunTest, DivergesAsOneAfterAnother) {
  for (const int64_t passes : {1, 2}) {
    EXPECT_THROW(fit("diverged" + std::to_string(passes), passes,
                     [](TrainConfig& config) {
                       auto adamw = *config.optim.get_if<optim::AdamWConfig>();
                       adamw.lr = 1e30;
                       config.optim = {adamw};
                       config.trainer.max_grad_norm = 0;
                     }),
                 DivergedError);
  }
}

}  // namespace
}  // namespace fovea::train
