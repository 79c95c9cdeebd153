#include "fovea/train/bench/bench.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/work_scope.h"
#include "fovea/models/registry.h"
#include "fovea/models/summary.h"
#include "fovea/train/bench/bench_profile.h"
#include "fovea/train/bench/model_summary.h"
#include "fovea/train/bench/operation_log.h"

namespace fovea {
namespace {

train::BenchOptions tiny_options(bool is_training) {
  models::VitConfig model;
  model.img_size = {8};
  model.patch_size = {4};
  model.in_chans = 1;
  model.embed_dim = 16;
  model.depth = 2;
  model.num_heads = 2;
  model.num_classes = 3;
  train::BenchOptions options;
  options.name = "tiny";
  options.config.model.value = model;
  options.is_training = is_training;
  options.batch_size = 4;
  options.warmup_steps = 1;
  options.steps = 3;
  options.peak = {.repeats = 1, .shrink = 16};  // the whole takes seconds
  options.config.device.type = "cpu";
  if (is_training) options.config.device.dtype = "bfloat16";
  return options;
}

// Measured once.
const train::BenchResult& result_of(bool is_training) {
  static const auto trained = train::bench_model(tiny_options(true));
  static const auto inferred = train::bench_model(tiny_options(false));
  return is_training ? trained : inferred;
}

class BenchTest : public ::testing::TestWithParam<bool> {};

TEST_P(BenchTest, FiguresAgreeWithEachOther) {
  const auto& result = result_of(GetParam());
  EXPECT_EQ(result.mode, GetParam() ? "train" : "infer");
  EXPECT_GT(result.step_ms, 0);
  EXPECT_LE(result.step_ms_min, result.step_ms);
  EXPECT_LE(result.step_ms, result.step_ms_max);
  EXPECT_GT(result.cpu_ms, 0);
  EXPECT_DOUBLE_EQ(result.images_per_second, 4e3 / result.step_ms);
  EXPECT_DOUBLE_EQ(result.gemm_share, result.gflops_per_second / result.gemm_gflops_per_second);
  EXPECT_GT(result.gemm_share, 0);
  EXPECT_LT(result.gemm_share, 1);
  EXPECT_EQ(result.threads, at::get_num_threads());
}

TEST_P(BenchTest, CountsTwoFlopsAMultiplyAddAndBackwardTwice) {
  // 5 tokens of width 16, 2 blocks: qkv 3 D^2, proj D^2, mlp 8 D^2 a token, attention 2 N D a
  // token; of the last block attention, proj and mlp of the class token alone; patches of 16 values
  // for 4 of the tokens; a head of 3 classes.
  constexpr double kBlocks = 2 * 5 * (12 * 16 * 16 + 2 * 5 * 16) - 4 * (9 * 16 * 16 + 2 * 5 * 16);
  constexpr double kMultiplyAdds = kBlocks + 4 * 16 * 16 + 16 * 3;
  // Inference: qkv of that token alone, too, each of the 2 heads of which attends to tokens 16
  // wide.
  constexpr double kSaved = 4 * 3 * 16 * 16 - 2 * 5 * 16;
  const auto& result = result_of(GetParam());
  const double flops = result.gflops_per_second * 1e9 * result.step_ms * 1e-3;
  EXPECT_DOUBLE_EQ(flops, 4 * 2 * (GetParam() ? 3 * kMultiplyAdds : kMultiplyAdds - kSaved));
}

TEST_P(BenchTest, JsonHasTheKeysThatScriptsRelyOn) {
  const auto object = nlohmann::json::parse(result_of(GetParam()).to_json());
  for (const char* key : {"name", "mode", "dtype", "device", "threads", "batch_size", "host_waits",
                          "host_waits_by_operator", "images_per_second", "step_ms", "cpu_ms",
                          "gflops_per_second", "gemm_share", "peak_memory_bytes"}) {
    EXPECT_TRUE(object.contains(key)) << key;
  }
  EXPECT_EQ(object["name"], "tiny");
  EXPECT_EQ(object["dtype"], GetParam() ? "bfloat16" : "float32");
  EXPECT_EQ(object["device"], "cpu");
  EXPECT_EQ(object["batch_size"], 4);
}

INSTANTIATE_TEST_SUITE_P(Modes, BenchTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "train" : "infer"; });

TEST(BenchOptionsTest, NoStepsIsAnError) {
  auto options = tiny_options(true);
  options.steps = 0;
  EXPECT_THROW(train::bench_model(options), Error);
}

using Gradients = std::map<std::string, at::Tensor>;

// As the model is written down, without optimizer, copies of weights or a step's scope around it.
Gradients plain_gradients(const train::BenchOptions& options, const Gradients& step) {
  const auto model = models::build_model(options.config.model);
  Gradients gradients;
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters()) {
      item.value().copy_(step.at("weights." + item.key()));
    }
  }
  at::cross_entropy_loss(model->forward(step.at("images")), step.at("labels")).backward();
  for (const auto& item : model->named_parameters()) {
    gradients["gradients." + item.key()] = item.value().grad();
  }
  return gradients;
}

TEST(BenchGradientsTest, AreThoseOfTheWeightsAndImagesBesideThem) {
  auto options = tiny_options(true);
  options.config.device.dtype = "float32";
  options.config.trainer.max_grad_norm = 1e-3;
  for (const bool is_recipe : {false, true}) {
    options.is_recipe = is_recipe;
    options.config.task.value = train::ClassificationConfig();
    const auto named = train::bench_gradients(options);
    const Gradients step(named.begin(), named.end());
    ASSERT_EQ(step.at("images").sizes(), (std::vector<int64_t>{4, 1, 8, 8}));
    ASSERT_EQ(step.at("labels").sizes(), std::vector<int64_t>{4});
    const auto expected = plain_gradients(options, step);
    EXPECT_EQ(step.size(), 2 + 2 * expected.size());
    for (const auto& [name, gradient] : expected) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(step.contains(name));
      const auto scale = gradient.norm().item<double>();
      EXPECT_GT(scale, 0);
      EXPECT_LT((step.at(name) - gradient).norm().item<double>(), 1e-5 * scale);
    }
  }
}

TEST(BenchGradientsTest, MixedLabelsAreRefused) {
  auto options = tiny_options(true);
  options.is_recipe = true;
  options.config.task.value = train::ClassificationConfig();
  options.config.data.mixup.mixup_alpha = 0.2;
  EXPECT_THROW(train::bench_gradients(options), ConfigError);
}

// Heads wide enough for every kernel there is.
train::BenchOptions profiled_vit(c10::ScalarType dtype, bool is_training) {
  auto options = tiny_options(is_training);
  auto& model = std::get<models::VitConfig>(options.config.model.value);
  model.img_size = {32};
  model.embed_dim = 64;
  options.config.device.dtype = train::dtype_name(dtype);
  return options;
}

const train::ProfileRow* find_row(const train::ProfileResult& result, const std::string& name) {
  for (const auto& row : result.rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

double gflops_of(const train::ProfileResult& result, const std::string& name) {
  const auto* row = find_row(result, name);
  EXPECT_NE(row, nullptr) << name;
  return row ? row->gflops : 0;
}

TEST(OperationLogTest, WhatRunsInsideBelongsToTheOutermost) {
  train::OperationLog log;
  const auto a = at::ones({8, 8});
  a.matmul(a);  // runs mm
  {
    const kernels::WorkScope work("fovea::own", 1000, 64);
    a.mm(a);
  }
  const auto costs = log.take();
  ASSERT_TRUE(costs.contains("aten::matmul"));
  EXPECT_FALSE(costs.contains("aten::mm"));
  EXPECT_EQ(costs.at("aten::matmul").calls, 1);
  EXPECT_EQ(costs.at("aten::matmul").flops, 2 * 8 * 8 * 8);
  EXPECT_EQ(costs.at("aten::matmul").bytes, 3 * 8 * 8 * 4);
  ASSERT_TRUE(costs.contains("fovea::own"));
  EXPECT_EQ(costs.at("fovea::own").flops, 1000);
  EXPECT_EQ(costs.at("fovea::own").bytes, 64);
  EXPECT_TRUE(log.take().empty());
}

struct ConvCase {
  std::vector<int64_t> x, weight, stride, padding, dilation;
  bool is_transposed;
  int64_t groups;
  double flops;  // of the output alone
};

TEST(OperationLogTest, ConvolutionsAreMultipliedOut) {
  const std::vector<ConvCase> cases = {
      // 2 samples of 5 x 8 places, each with 6 x 4 x 3 x 3 weights, 2 a multiply-add
      {{2, 4, 9, 8}, {6, 4, 3, 3}, {2, 1}, {1, 1}, {1, 1}, false, 1, 2.0 * 2 * 40 * 216},
      // 4 x 4 places; of two groups each sees half of the channels
      {{1, 4, 6, 6}, {8, 2, 3, 3}, {1, 1}, {0, 0}, {1, 1}, false, 2, 2.0 * 16 * 144},
      // dilated, the kernel reaches over 5: 3 x 3 x 3 places
      {{1, 1, 7, 7, 7}, {2, 1, 3, 3, 3}, {1, 1, 1}, {0, 0, 0}, {2, 2, 2}, false, 1, 2.0 * 27 * 54},
      // transposed: 2 samples of 4 x 4 x 4 places of the input
      {{2, 3, 4, 4, 4},
       {3, 5, 2, 2, 2},
       {2, 2, 2},
       {0, 0, 0},
       {1, 1, 1},
       true,
       1,
       2.0 * 2 * 64 * 120}};
  for (const auto dtype : {at::kFloat, at::kDouble}) {  // of oneDNN, and of libtorch
    for (const auto& one : cases) {
      SCOPED_TRACE(testing::PrintToString(one.weight));
      const auto weight = at::ones(one.weight, dtype).set_requires_grad(true);
      for (const bool has_input_gradient : {true, false}) {
        const auto x = at::ones(one.x, dtype).set_requires_grad(has_input_gradient);
        train::OperationLog log;
        const std::vector<int64_t> none(one.stride.size(), 0);
        const auto y = at::convolution(x, weight, {}, one.stride, one.padding, one.dilation,
                                       one.is_transposed, none, one.groups);
        EXPECT_EQ(log.take().at("aten::convolution").flops, one.flops);
        y.sum().backward();
        EXPECT_EQ(log.take().at("aten::convolution_backward").flops,
                  (has_input_gradient ? 2 : 1) * one.flops);
      }
    }
  }
}

// Counted twice: by what runs, and by the shapes of its layers.
TEST(ProfileResultTest, ConvolutionsOfUnetrAreThoseOfTheSummary) {
  train::BenchOptions options = tiny_options(false);
  models::UnetrConfig unetr;
  unetr.encoder.vit.img_size = {32};
  unetr.encoder.vit.patch_size = {8};
  unetr.encoder.vit.in_chans = 1;
  unetr.encoder.vit.embed_dim = 32;
  unetr.encoder.vit.depth = 4;
  unetr.encoder.vit.num_heads = 2;
  unetr.num_classes = 3;
  unetr.feature_size = 8;
  options.config.model = {unetr};
  const auto result = train::profile_model(options);
  const auto summary = models::summarize(*models::build_model(options.config.model));
  double gflops = 0;
  for (const auto& row : result.rows) gflops += row.gflops;
  EXPECT_NEAR(gflops, 1e-9 * 4 * static_cast<double>(summary.product_flops), 1e-9 * gflops);
  EXPECT_GT(gflops_of(result, "aten::convolution"), gflops / 2);
}

TEST(OperationLogTest, ViewsMoveNothingAndUpdatesInPlaceDo) {
  const auto a = at::ones({8, 8});
  train::OperationLog log;
  a.view({64});
  a.t();
  a.reshape({4, 16});
  a.add_(1);
  a.expand({100, 8, 8}).sum();
  const auto costs = log.take();
  for (const char* name : {"aten::view", "aten::t", "aten::reshape", "aten::expand"}) {
    EXPECT_EQ(costs.at(name).bytes, 0) << name;
  }
  EXPECT_EQ(costs.at("aten::add_").bytes, 2 * 8 * 8 * 4);
  EXPECT_EQ(costs.at("aten::sum").bytes, 8 * 8 * 4 + 4);  // what is there of the expanded
}

TEST(OperationLogTest, OneAtATime) {
  train::OperationLog log;
  EXPECT_THROW(train::OperationLog(), Error);
}

class ProfileTest : public ::testing::TestWithParam<c10::ScalarType> {};

TEST_P(ProfileTest, RowsAreTheStep) {
  trace::start();
  const auto result = train::profile_model(profiled_vit(GetParam(), true));
  const auto spans = trace::stop();
  std::set<std::string> names;
  double ms = result.outside_ms, share = 0;
  for (const auto& row : result.rows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.calls, 0);
    ms += row.ms;
    share += row.share;
  }
  EXPECT_NEAR(ms, result.step_ms, 1e-9 * ms);
  EXPECT_GT(result.outside_ms, 0);
  EXPECT_NEAR(share, 1 - result.outside_ms / result.step_ms, 1e-9);
  EXPECT_GT(share, 0);
  for (const char* name :
       {"fovea::linear", "fovea::linear_backward_input", "fovea::linear_backward_weight",
        "fovea::linear_backward_bias", "fovea::self_attention", "fovea::self_attention_backward",
        "fovea::layer_norm", "fovea::layer_norm_backward", "fovea::optimizer_update"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  // The timeline has all steps, and in it what the table has.
  std::set<std::string> in_trace;
  int64_t steps = 0;
  for (const auto& span : spans) {
    in_trace.insert(span.name);
    steps += span.name == "training step";
  }
  EXPECT_EQ(steps, result.steps);
  for (const auto& name : names) EXPECT_TRUE(in_trace.contains(name)) << name;
}

TEST_P(ProfileTest, ProductsAreThoseOfTheModel) {
  const auto options = profiled_vit(GetParam(), true);
  const double forward = 1e-9 * 4 * train::inference_flops_per_image(options.config);
  const double embed = 1e-9 * 4 * 2 * 64 * 16 * 64;  // of patches; no gradient of the images
  const auto result = train::profile_model(options);
  const double linear = gflops_of(result, "fovea::linear");
  const double attention = gflops_of(result, "fovea::self_attention");
  EXPECT_NEAR(linear + attention, forward, 1e-9 * forward);
  EXPECT_NEAR(gflops_of(result, "fovea::linear_backward_weight"), linear, 1e-9 * linear);
  EXPECT_NEAR(gflops_of(result, "fovea::linear_backward_input"), linear - embed, 1e-9 * linear);
  EXPECT_NEAR(gflops_of(result, "fovea::self_attention_backward"), 2 * attention, 1e-9 * attention);
  double all = 0;
  for (const auto& row : result.rows) all += row.gflops;
  EXPECT_NEAR(all, 3 * forward - embed, 1e-9 * all);
}

// The rate that `fovea bench` and the training log tell is that of the work that is done.
TEST_P(ProfileTest, TokensLeftOutAreNotCounted) {
  auto options = profiled_vit(GetParam(), true);
  const double all = train::training_flops_per_image(options.config);
  EXPECT_EQ(train::inference_flops_per_image(options.config), all / 3);
  std::get<models::VitConfig>(options.config.model.value).patch_drop_rate = 0.5;
  const double kept = train::training_flops_per_image(options.config);
  EXPECT_LT(kept, 0.6 * all);
  EXPECT_EQ(train::inference_flops_per_image(options.config), all / 3);
  const auto result = train::profile_model(options);
  const double forward =
      gflops_of(result, "fovea::linear") + gflops_of(result, "fovea::self_attention");
  EXPECT_NEAR(forward, 1e-9 * 4 * kept / 3, 1e-9 * forward);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ProfileTest, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(ProfileResultTest, InferenceAsTextAndJson) {
  const auto result = train::profile_model(profiled_vit(at::kFloat, false));
  EXPECT_EQ(result.mode, "infer");
  EXPECT_EQ(find_row(result, "fovea::optimizer_update"), nullptr);
  const auto* linear = find_row(result, "fovea::linear");
  ASSERT_NE(linear, nullptr);
  const double products_ms = 1e3 * linear->gflops / result.gemm_gflops_per_second;
  const double memory_ms = linear->megabytes / result.memory_gigabytes_per_second;
  EXPECT_NEAR(linear->floor_ms, std::max(products_ms, memory_ms), 1e-9);
  EXPECT_THAT(result.to_text(), testing::HasSubstr("fovea::linear"));
  const auto object = nlohmann::json::parse(result.to_json());
  EXPECT_EQ(object["mode"], "infer");
  EXPECT_EQ(object["operations"].size(), result.rows.size());
  EXPECT_EQ(object["operations"][0]["name"], result.rows[0].name);
}

TEST(ProfileResultTest, OnlyWhereTheClockIsThatOfTheWork) {
  auto options = profiled_vit(at::kFloat, true);
  options.config.device.type = "cuda";
  EXPECT_THROW(train::profile_model(options), ConfigError);
}

}  // namespace
}  // namespace fovea
