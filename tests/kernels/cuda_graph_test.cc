// CUDA graphs; skipped, and said so, where there is no GPU.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/kernels/device_graph.h"
#include "fovea/kernels/device_memory.h"
#include "fovea/kernels/host_part.h"
#include "tests/support/close.h"
#include "tests/support/gpu_test.h"

namespace fovea {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

using CudaGraphTest = support::GpuTest<>;

// What the graph does before it reads them takes memory and gives it back.
TEST_F(CudaGraphTest, ValuesOfTheHostOutliveWhatTheReplayDoesBefore) {
  const at::NoGradGuard no_grad;
  double value = 0;
  const auto x = at::full({1000}, 3.0, at::TensorOptions().device(kGpu).dtype(at::kDouble));
  auto y = at::zeros_like(x);
  const auto work = [&] {
    for (int i = 0; i < 20; ++i) y.copy_(x * 2 + 1);  // temporaries
    y.copy_(x * kernels::host_values({1000}, at::kDouble, kGpu,
                                     [&](const at::Tensor& host) { host.fill_(value); }));
  };
  kernels::HostPart part;
  const auto graph = kernels::make_device_graph(kGpu);
  ASSERT_TRUE(graph);
  graph->rehearse(work);
  graph->record([&] {
    const kernels::RecordingScope scope(part, *graph);
    work();
  });
  for (const double next : {5.0, 7.0}) {
    value = next;
    part.fill();
    graph->replay();
    support::expect_same_bits(y.cpu(), at::full({1000}, 3 * next, at::kDouble), "y");
  }
}

// Waiting for the device is nothing that can be noted. Memory is given out and back as before.
TEST_F(CudaGraphTest, ARecordingThatFailsLeavesTheAllocatorAsItWas) {
  const at::NoGradGuard no_grad;
  const auto x = at::full({1 << 20}, 3.0f, at::TensorOptions().device(kGpu));
  const auto before = kernels::allocated_bytes(kGpu);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto graph = kernels::make_device_graph(kGpu);
    EXPECT_ANY_THROW(graph->record([&] { (x * 2).sum().item<float>(); }));
    EXPECT_EQ(kernels::allocated_bytes(kGpu), before);
  }
  at::Tensor y;
  const auto graph = kernels::make_device_graph(kGpu);
  graph->record([&] { y = x * 2; });
  graph->replay();
  EXPECT_EQ(y.sum().item<float>(), 6.0f * (1 << 20));
}

}  // namespace
}  // namespace fovea
