// The CUDA back end against the CPU; skipped, and said so, where there is no GPU.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/cuda/module.h"
#include "fovea/kernels/device.h"
#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/kernels/elementwise/drop.h"
#include "fovea/kernels/elementwise/images.h"
#include "fovea/kernels/elementwise/norm.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/elementwise/residual.h"
#include "fovea/kernels/gpu_facts.h"
#include "tests/kernels/cuda_cases.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

// Loaded before any other test touches a tensor; see load_cuda_backend.
class LoadBackend : public testing::Environment {
 public:
  void SetUp() override { kernels::load_cuda_backend(); }
};
[[maybe_unused]] const auto* const kLoadBackend =
    testing::AddGlobalTestEnvironment(new LoadBackend);

using support::CudaTest;

TEST_P(CudaTest, LayerNorm) {
  for (const int64_t D : {64, 197, 768, 8192, 8200}) {  // 8200: wider than our kernel's rows
    SCOPED_TRACE(D);
    compare([](const Inputs& in) { return kernels::layer_norm(in[0], in[1], in[2], 1e-6); },
            {random({3, 17, D}, GetParam(), 1), random({D}, at::kFloat, 2),
             random({D}, at::kFloat, 3)});
  }
}

TEST_P(CudaTest, Residual) {
  const auto mask = at::tensor({1.25f, 0.0f, 1.25f});
  for (const int64_t D : {64, 197}) {
    compare(
        [&](const Inputs& in) {
          return kernels::add_residual(in[0], in[1], in[2], mask.to(in[0].device()));
        },
        {random({3, 70, D}, GetParam(), 1), random({3, 70, D}, GetParam(), 2),
         random({D}, at::kFloat, 3)});
  }
}

TEST_P(CudaTest, SumRowsHasTheSameBitsEachTime) {
  for (const int64_t M : {1, 100, 5000}) {
    const auto x = random({M, 197}, GetParam(), 1);
    const auto there = kernels::sum_rows(x.to(at::kCUDA));
    support::expect_close(there.to(at::kCPU), kernels::sum_rows(x), at::kFloat, "sums");
    support::expect_same_bits(kernels::sum_rows(x.to(at::kCUDA)).to(at::kCPU), there.to(at::kCPU),
                              "sums again");
  }
}

TEST_P(CudaTest, Activations) {
  for (const auto& name : kernels::activation_names()) {
    const auto kind = kernels::activation_from_name(name);
    compare([&](const Inputs& in) { return kernels::activate(in[0], kind); },
            {random({3, 17, 64}, GetParam(), 1)});
  }
}

TEST_P(CudaTest, Attention) {
  const std::vector<int64_t> shape = {2, 3, 17, 32};
  for (const auto* choice : {"flash", "cudnn", "efficient", "math", "auto"}) {  // auto: left behind
    SCOPED_TRACE(choice);
    kernels::choose_attention(choice, c10::Device(c10::kCUDA, 0));
    compare(
        [](const Inputs& in) { return kernels::attention(in[0], in[1], in[2], 0.2); },
        {random(shape, GetParam(), 1), random(shape, GetParam(), 2), random(shape, GetParam(), 3)});
  }
}

TEST_P(CudaTest, DropMasksAreTheCpusBitForBit) {
  const kernels::DropKey key{.key = philox_key(1, "drop"), .step = 9, .rows = at::arange(5) + 7};
  for (const int64_t elements : {1, 5, 1000}) {
    const auto expected = kernels::drop_mask(key, elements, 0.3);
    auto there = key;
    there.rows = key.rows.to(at::kCUDA);
    const auto actual = kernels::drop_mask(there, elements, 0.3);
    EXPECT_TRUE(actual.is_cuda());
    support::expect_same_bits(actual.to(at::kCPU), expected, "mask");
  }
  const auto x = random({5, 40}, GetParam(), 1);
  support::expect_same_bits(kernels::dropout(x.to(at::kCUDA), 0.3, key).to(at::kCPU),
                            kernels::dropout(x, 0.3, key), "dropout");
}

TEST_P(CudaTest, AdamW) {
  const auto update = [](const c10::Device device) {
    auto param = random({1000}, at::kFloat, 1).to(device),
         grad = random({1000}, at::kFloat, 2).to(device);
    auto first = random({1000}, at::kFloat, 3).to(device);
    auto second = random({1000}, at::kFloat, 4).abs().to(device);
    auto step = at::full({}, 3.0, param.options());
    at::_fused_adamw_({param}, {grad}, {first}, {second}, {}, {step}, /*lr=*/1e-2, /*beta1=*/0.9,
                      /*beta2=*/0.999, /*weight_decay=*/0.05, /*eps=*/1e-8, /*amsgrad=*/false,
                      /*maximize=*/false);
    return param;
  };
  support::expect_close(update(at::kCUDA), update(at::kCPU), at::kFloat, "parameter");
}

TEST_P(CudaTest, AdamWStep) {
  struct Result {
    at::Tensor param, exp_avg_sq, average, copy;
  };
  const auto update = [](const c10::Device device, float bad) {
    const auto buffer = [&](uint64_t seed) { return random({5000}, at::kFloat, seed).to(device); };
    kernels::AdamWBuffers b{buffer(1), buffer(2), buffer(3), buffer(4).square()};
    b.grad[17] += bad;
    const Result result{b.param, b.exp_avg_sq, buffer(5), buffer(6).to(at::kBFloat16)};
    const auto tiles = at::tensor({0, 4096, 0, 4096, 904, 1}, at::kLong).view({2, 3}).to(device);
    kernels::adamw_step(
        b, tiles,
        kernels::adamw_coefficients({{0.99f, 0.999f, 0.1f, 0.001f, 20.0f, 1e-8f, 0.02f, 0.1f},
                                     {1.0f, 0.95f, 0.2f, 0.05f, 3.0f, 1e-6f, 0.3f, 0.1f}},
                                    device),
        {.clip = kernels::clip_state(b.grad, {.max_norm = 1.0, .grad_scale = 0.3}),
         .average = result.average,
         .copy = result.copy});
    return result;
  };
  for (const float bad : {0.0f, INFINITY}) {
    const auto actual = update(at::kCUDA, bad), expected = update(at::kCPU, bad);
    support::expect_close(actual.param, expected.param, at::kFloat, "param");
    support::expect_close(actual.exp_avg_sq, expected.exp_avg_sq, at::kFloat, "exp_avg_sq");
    support::expect_close(actual.average, expected.average, at::kFloat, "average");
    support::expect_close(actual.copy, expected.copy, at::kBFloat16, "copy");
  }
}

TEST_P(CudaTest, NormalizeImages) {
  const auto values = random({2, 3, 24, 40}, at::kFloat, 1) * 60 + 120;
  const auto bytes = values.clamp(0, 255).to(at::kByte);
  const auto mean = at::tensor({0.4f, 0.5f, 0.6f}), std = at::tensor({0.2f, 0.3f, 0.4f});
  const auto table = at::tensor({1, 1, 0, 0, 0, 0, 0, 0, 3, 4, 7, 9}, at::kLong).view({2, 6});
  const auto lam = at::tensor({0.3f, 0.8f});
  const auto make = [&](c10::Device device) {
    return kernels::normalize_images(bytes.to(device), mean.to(device), std.to(device),
                                     {table.to(device), lam.to(device)}, GetParam());
  };
  support::expect_close(make(at::kCUDA), make(at::kCPU), GetParam(), "images");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaTest, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

// Without a GPU the module can still be loaded, if all the libraries that libtorch_cuda names are
// installed: its kernels must then stand in the dispatcher under the schemas that this program
// defines.
TEST(CudaModuleTest, RegistersItsKernels) {
  const char* elsewhere = std::getenv("FOVEA_CUDA_MODULE");  // of tests that were carried there
  const std::filesystem::path path = elsewhere ? elsewhere : FOVEA_CUDA_MODULE;
  if (path.empty()) GTEST_SKIP() << "skipped: built without nvcc";
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
  if (!dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL)) {
    GTEST_SKIP() << "skipped: " << dlerror();
  }
  for (const auto* name : {"drop_mask",
                           "sum_rows",
                           "layer_norm",
                           "layer_norm_backward",
                           "residual",
                           "residual_backward",
                           "adamw_step",
                           "clip_state",
                           "normalize_images",
                           "linear_product",
                           "linear_product_and_gelu",
                           "linear_input_gradient",
                           "linear_weight_gradient",
                           "linear_add_weight_gradient",
                           "gelu",
                           "gelu_backward",
                           "join_columns",
                           "is_capturing",
                           "has_fp8_products",
                           "fp8_largest",
                           "fp8_cast",
                           "new_device_graph"}) {
    EXPECT_TRUE(c10::Dispatcher::singleton()
                    .findSchemaOrThrow((std::string("fovea::") + name).c_str(), "")
                    .hasKernelForDispatchKey(c10::DispatchKey::CUDA))
        << name;
  }
  const auto tell = reinterpret_cast<decltype(&fovea_tell_of_module)>(
      dlsym(RTLD_DEFAULT, "fovea_tell_of_module"));
  ASSERT_NE(tell, nullptr);
  EXPECT_STREQ(tell().version, FOVEA_VERSION);
  EXPECT_TRUE(kernels::has_code_for(90, tell().architectures)) << tell().architectures;
  EXPECT_GE(tell().runtime_version, 12000);
}

}  // namespace
}  // namespace fovea
