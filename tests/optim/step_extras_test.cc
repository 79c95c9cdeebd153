// What an optimizer does in one pass is what passes of their own do, bit for bit.
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/optim/adamw.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/sgd.h"
#include "tests/support/close.h"

namespace fovea::optim {
namespace {

using kernels::own_weight;
using support::random;

std::unique_ptr<Optimizer> make(const std::string& kind) {
  std::vector<ParamSpec> params;
  int64_t rows = 7;
  for (const std::string name : {"a", "b", "c"}) {
    auto weight = random({rows, 301}, at::kFloat, static_cast<uint64_t>(rows));
    params.push_back({name, weight.set_requires_grad(true), 1.0, name == "b" ? 0.0 : 0.1});
    rows += 30;
  }
  if (kind == "sgd") {
    SgdConfig config;
    config.momentum = 0.9;
    return make_sgd(config, params);
  }
  return make_adamw({}, params, kind == "adamw" ? Implementation::kFused : Implementation::kPlain);
}

void draw_gradients(Optimizer& optimizer, uint64_t seed) {
  for (const auto& spec : optimizer.params()) {
    const at::NoGradGuard no_grad;
    spec.param.grad().copy_(random(spec.param.sizes().vec(), at::kFloat, seed++) * 5);
  }
}

class StepExtrasTest : public testing::TestWithParam<std::string> {};

TEST_P(StepExtrasTest, AreWhatPassesOfTheirOwnDo) {
  const auto joined = make(GetParam()), apart = make(GetParam());
  Ema joined_ema(*joined, {.decay = 0.9}), apart_ema(*apart, {.decay = 0.9});
  for (int64_t step = 0; step < 4; ++step) {
    for (auto* optimizer : {joined.get(), apart.get()}) {
      draw_gradients(*optimizer, static_cast<uint64_t>(step));
    }
    StepExtras extras{
        .clip = kernels::clip_state(joined->flat_grad(), {.max_norm = 1, .grad_scale = 1.0 / 3})};
    joined_ema.join(step, extras);
    joined->step(1e-2, extras);
    apart->flat_grad().mul_(1.0 / 3);
    EXPECT_GT(clip_gradients(*apart, 1, 0), 2);
    apart->step(1e-2);
    apart_ema.update(step);
  }
  EXPECT_EQ(joined->steps_taken(), 4);
  support::expect_same_bits(joined->flat_param(), apart->flat_param(), "parameters");
  for (const auto& [name, average] : joined_ema.state()) {
    support::expect_same_bits(average, apart_ema.state().at(name), "average of " + name);
  }
}

// The copy in bfloat16 that those who share out parameters send is written by the same pass; who
// has no such pass says so.
TEST(StepExtrasTest, TheCopyOfSharedOutParametersIsOfTheOnePass) {
  for (const auto implementation : {Implementation::kFused, Implementation::kPlain}) {
    const kernels::FlatBuffers buffers{.values = random({96}, at::kFloat, 1),
                                       .gradients = at::zeros({96}),
                                       .copy = at::zeros({96}, at::kBFloat16)};
    std::vector<ParamSpec> specs;
    for (const int64_t begin : {0, 48}) {
      auto& spec = specs.emplace_back();
      spec.name = std::to_string(begin);
      spec.param = kernels::flat_view(buffers.values, begin, {48}).set_requires_grad(true);
      spec.part = kernels::TensorPart{.shape = {48}};
      spec.place = FlatPlace{.buffers = buffers, .begin = begin};
    }
    const auto optimizer = make_adamw({}, specs, implementation);
    std::vector<bool> had_copy;
    optimizer->connect({.sum = [](const at::Tensor&) {},
                        .changed = [&](bool has_copy) { had_copy.push_back(has_copy); }});
    draw_gradients(*optimizer, 5);
    optimizer->step(1e-2);
    optimizer->mark_changed();
    const bool is_fused = implementation == Implementation::kFused;
    EXPECT_EQ(had_copy, (std::vector<bool>{is_fused, false}));
    if (is_fused) {
      support::expect_same_bits(buffers.copy, buffers.values.to(at::kBFloat16), "copy");
    }
  }
}

// A replay finds the copies of weights current, also after an evaluation with other weights, and
// they are so after it.
TEST(StepByReplayTest, HasTheHostsPartOfAStep) {
  const auto optimizer = make("adamw");
  ASSERT_TRUE(optimizer->can_be_recorded());
  const auto& weight = optimizer->params()[0].param;
  const auto copy = own_weight(weight, at::kBFloat16);
  draw_gradients(*optimizer, 1);
  optimizer->step(1e-2);
  optimizer->flat_param().mul_(2);
  optimizer->mark_changed();
  int replays = 0;
  optimizer->step_by_replay(1e-2, {}, [&] {
    ++replays;
    support::expect_same_bits(copy, weight.detach().to(at::kBFloat16), "copy before");
    copy.zero_();  // as a replay writes it
  });
  EXPECT_EQ(replays, 1);
  EXPECT_EQ(optimizer->steps_taken(), 2);
  EXPECT_EQ(own_weight(weight, at::kBFloat16).count_nonzero().item<int64_t>(), 0);
}

TEST(StepByReplayTest, IsNotThereForOthers) {
  for (const auto* kind : {"sgd", "plain"}) {
    const auto optimizer = make(kind);
    EXPECT_FALSE(optimizer->can_be_recorded()) << kind;
    EXPECT_THROW(optimizer->step_by_replay(1e-2, {}, [] {}), Error) << kind;
  }
}

TEST_P(StepExtrasTest, WhatIsNotFiniteChangesNoValue) {
  const auto optimizer = make(GetParam());
  Ema ema(*optimizer, {.decay = 0.5});
  own_weight(optimizer->params()[0].param, at::kBFloat16);
  draw_gradients(*optimizer, 1);
  optimizer->params()[1].param.grad().view(-1)[3] = INFINITY;
  const auto before = optimizer->flat_param().clone();
  StepExtras extras{.clip = kernels::clip_state(optimizer->flat_grad(), {.max_norm = 1})};
  ema.join(1, extras);
  optimizer->step(1e-2, extras);
  support::expect_same_bits(optimizer->flat_param(), before, "parameters");
  support::expect_same_bits(extras.average, before, "average");
  for (const auto& spec : optimizer->params()) {
    support::expect_same_bits(own_weight(spec.param, at::kBFloat16),
                              spec.param.detach().to(at::kBFloat16), spec.name);
  }
}

// Whoever changes the weights.
TEST_P(StepExtrasTest, WeightCopiesFollowTheWeights) {
  const auto optimizer = make(GetParam());
  Ema ema(*optimizer, {.decay = 0.5});
  const auto expect_casts = [&](const std::string& when) {
    for (const auto& spec : optimizer->params()) {
      if (spec.name == "b") continue;  // nobody asks for that one's before the end
      support::expect_same_bits(own_weight(spec.param, at::kBFloat16),
                                spec.param.detach().to(at::kBFloat16), spec.name + " " + when);
    }
  };
  expect_casts("at first");
  for (uint64_t step = 0; step < 3; ++step) {
    draw_gradients(*optimizer, step);
    optimizer->step(1e-2);
    expect_casts("after a step");
  }
  ema.update(0);
  draw_gradients(*optimizer, 7);
  optimizer->step(1e-2);
  {
    const EmaScope average(&ema);
    expect_casts("with the average in place");
  }
  expect_casts("after the average");
  {
    const at::NoGradGuard no_grad;
    optimizer->params()[0].param.copy_(random({7, 301}, at::kFloat, 99));
    expect_casts("after a copy into one");
    optimizer->flat_param().add_(1);
    optimizer->mark_changed();
    expect_casts("after a change of the buffer");
  }
  const auto& late = optimizer->params()[1].param;
  support::expect_same_bits(own_weight(late, at::kBFloat16), late.detach().to(at::kBFloat16), "b");
}

INSTANTIATE_TEST_SUITE_P(Optimizers, StepExtrasTest, testing::Values("adamw", "adamw_plain", "sgd"),
                         [](const auto& info) { return info.param; });

TEST(StepExtrasOfAdamWTest, ThePassItselfWritesTheCopies) {
  for (const std::string kind : {"adamw", "adamw_plain"}) {
    const auto optimizer = make(kind);
    const auto weight = optimizer->params()[0].param;
    own_weight(weight, at::kBFloat16);
    draw_gradients(*optimizer, 1);
    optimizer->step(1e-2);
    const auto after_step = weight.detach().to(at::kBFloat16);
    // The buffer has versions of its own: what is behind the weights' is seen by a new cast alone.
    optimizer->flat_param().add_(1);
    EXPECT_EQ(own_weight(weight, at::kBFloat16).equal(after_step), kind == "adamw") << kind;
  }
}

}  // namespace
}  // namespace fovea::optim
