#include "fovea/train/bench.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"

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
  options.model.value = model;
  options.is_training = is_training;
  options.batch_size = 4;
  options.warmup_steps = 1;
  options.steps = 3;
  if (is_training) options.compute.dtype = at::kBFloat16;
  return options;
}

// Measured once: the machine's peak alone takes a second.
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
  // token; patches of 16 values for 4 of the tokens; a head of 3 classes.
  constexpr double kMultiplyAdds = 2 * 5 * (12 * 16 * 16 + 2 * 5 * 16) + 4 * 16 * 16 + 16 * 3;
  const auto& result = result_of(GetParam());
  const double flops = result.gflops_per_second * 1e9 * result.step_ms * 1e-3;
  EXPECT_DOUBLE_EQ(flops, 4 * 2 * kMultiplyAdds * (GetParam() ? 3 : 1));
}

TEST_P(BenchTest, JsonHasTheKeysThatScriptsRelyOn) {
  const auto object = nlohmann::json::parse(result_of(GetParam()).to_json());
  for (const char* key :
       {"name", "mode", "dtype", "device", "threads", "batch_size", "images_per_second", "step_ms",
        "cpu_ms", "gflops_per_second", "gemm_share", "peak_memory_bytes"}) {
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

}  // namespace
}  // namespace fovea
