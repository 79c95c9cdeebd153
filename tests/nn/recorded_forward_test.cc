#include "fovea/nn/recorded_forward.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <thread>

#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/nn/block.h"
#include "tests/nn/layers_common.h"
#include "tests/support/parity.h"

namespace fovea::nn {
namespace {

using support::expect_same_bits;

constexpr int64_t kRecordedDim = 64;

at::Tensor tokens(uint64_t seed, int64_t count = 40) {
  return support::random({1, count, kRecordedDim}, at::kFloat, seed);
}

class RecordedForwardTest : public ::testing::Test {
 protected:
  RecordedForwardTest() {
    randomize(*block_, 1);
    block_->eval();
    assign_names(*block_);
  }

  // How often the model itself was asked while this ran.
  at::Tensor run(const at::Tensor& x, int64_t& asked) {
    asked = 0;
    return recorded_.run(x, at::kFloat, [&](const at::Tensor& given) {
      ++asked;
      return block_->forward(given);
    });
  }
  int64_t times_asked(const at::Tensor& x) {
    int64_t asked = 0;
    expect_same_bits(run(x, asked), block_->forward(x), "a pass");
    return asked;
  }

  const at::NoGradGuard no_grad_;
  TransformerBlock block_ = make_block({.attention = {.dim = kRecordedDim, .num_heads = 2},
                                        .mlp = {.dim = kRecordedDim, .hidden_dim = 128}},
                                       at::kCPU);
  std::unique_ptr<kernels::WeightCopies> copies_ =
      kernels::WeightCopies::of_model(block_->parameters());
  RecordedForward recorded_{*block_};
};

TEST_F(RecordedForwardTest, ReplaysShapesThatComeAgain) {
  EXPECT_EQ(times_asked(tokens(1)), 1);
  EXPECT_EQ(times_asked(tokens(2)), 1);
  EXPECT_EQ(times_asked(tokens(3)), 1) << "recorded";
  EXPECT_EQ(times_asked(tokens(4)), 1) << "confirmed";
  EXPECT_EQ(times_asked(tokens(5)), 0);
  EXPECT_EQ(times_asked(tokens(5, 41)), 1) << "another shape";
  EXPECT_EQ(times_asked(tokens(6)), 0);
  int64_t asked = 0;
  expect_same_bits(run(tokens(7).to(at::kDouble), asked), block_->forward(tokens(7)), "cast");
  EXPECT_EQ(asked, 0);
}

TEST_F(RecordedForwardTest, TheModelIsAskedWhereSomebodyLooks) {
  for (uint64_t seed = 0; seed < 5; ++seed) times_asked(tokens(seed));
  {
    const RecordScope recorder;
    EXPECT_EQ(times_asked(tokens(5)), 1) << "intermediates";
    EXPECT_FALSE(recorder.intermediates().empty());
  }
  {
    const at::AutoGradMode grad(true);
    EXPECT_EQ(times_asked(tokens(5)), 1) << "gradients";
  }
  {
    const c10::InferenceMode inference;
    EXPECT_EQ(times_asked(tokens(5)), 1) << "tensors without versions";
  }
  EXPECT_EQ(times_asked(tokens(5)), 0);
  int64_t told = 0;
  const auto weight = block_->named_parameters()["mlp.fc1.weight"];
  copies_->watch(weight, [&](const at::Tensor&) { ++told; });
  for (const int64_t count : {40, 40, 41, 41, 41, 41}) {
    EXPECT_EQ(times_asked(tokens(5, count)), 1) << "a weight is watched";
  }
  EXPECT_EQ(told, 12) << "of each pass, and of the one beside it, once";
  copies_->watch(weight, {});
  for (const bool is_asked : {true, true, false}) EXPECT_EQ(times_asked(tokens(5)) > 0, is_asked);
  int64_t called = 0;
  units_of(*block_).values().back()->before_forward.emplace_back(
      [&](const UnitImpl&) { ++called; });
  EXPECT_EQ(times_asked(tokens(6)), 1) << "a callback";
  EXPECT_EQ(called, 2);
}

TEST_F(RecordedForwardTest, IsRecordedAgainWithOtherWeights) {
  for (uint64_t seed = 0; seed < 5; ++seed) times_asked(tokens(seed));
  for (const auto& parameter : block_->parameters()) parameter.add_(0.25);
  for (const bool is_asked : {true, true, false}) EXPECT_EQ(times_asked(tokens(5)) > 0, is_asked);
}

// What cannot be done again is asked each time, and once.
TEST_F(RecordedForwardTest, TheModelIsAskedWhereAPassIsNotConfirmed) {
  at::Tensor sum = at::zeros({});
  const auto forward = [&](const at::Tensor& x) {
    sum.fill_(*x.const_data_ptr<float>());
    return block_->forward(x) * sum.clone();
  };
  for (uint64_t seed = 0; seed < 7; ++seed) {
    int64_t asked = 0;
    const auto x = tokens(seed);
    const auto y = recorded_.run(x, at::kFloat, [&](const at::Tensor& given) {
      ++asked;
      return forward(given);
    });
    expect_same_bits(y, forward(x), fmt::format("pass {}", seed));
    EXPECT_EQ(asked, 1);
  }
}

TEST_F(RecordedForwardTest, ThreadsHavePassesOfTheirOwn) {
  constexpr int kThreads = 4, kTimes = 12;
  std::vector<std::vector<at::Tensor>> found(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const at::NoGradGuard no_grad;
      for (int i = 0; i < kTimes; ++i) {
        int64_t asked = 0;
        found[t].push_back(run(tokens(100 * t + i), asked));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kTimes; ++i) {
      expect_same_bits(found[t][i], block_->forward(tokens(100 * t + i)), fmt::format("{}", i));
    }
  }
}

}  // namespace
}  // namespace fovea::nn
