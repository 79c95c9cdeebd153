// That nothing on a GPU's path has the host wait for it within a step.
#include "fovea/kernels/host_waits.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/stub_gpu/stub_gpu.h"
#include "tests/train/graph_run.h"

namespace fovea::stub_gpu {
namespace {

using kernels::HostWaits;
using ::testing::IsEmpty;
using train::testing::GraphRun;
using train::testing::GraphSetup;

at::Tensor ones_there(at::IntArrayRef sizes) {
  return at::ones(sizes, at::TensorOptions().device(gpu()));
}

TEST(HostWaitsTest, WhoAsksForWhatTheDeviceMadeWaits) {
  const auto x = ones_there({4});
  const HostWaits waits;
  const auto sum = (x + x).sum();
  EXPECT_EQ(waits.count(), 0);
  EXPECT_EQ(sum.item<float>(), 8);
  EXPECT_EQ(waits.count(), 1);
  EXPECT_EQ(at::nonzero(x).size(0), 4);
  EXPECT_EQ(sum.cpu().item<float>(), 8);  // the item is the CPU's
  EXPECT_EQ(waits.by_operator(),
            (std::map<std::string, int64_t>{
                {"aten::_local_scalar_dense", 1}, {"aten::copy_", 1}, {"aten::nonzero", 1}}));
}

TEST(HostWaitsTest, CopiesOfPinnedMemoryThatNobodyWaitsForAreNone) {
  const auto pageable = at::ones({4}), pinned = pageable.pin_memory();
  ASSERT_TRUE(pinned.is_pinned());
  ASSERT_FALSE(pageable.is_pinned());
  const HostWaits waits;
  EXPECT_TRUE(pinned.to(gpu(), /*non_blocking=*/true).is_cuda());
  EXPECT_EQ(waits.count(), 0);
  pageable.to(gpu(), /*non_blocking=*/true);
  EXPECT_EQ(waits.count(), 1);
  pinned.to(gpu());
  EXPECT_EQ(waits.count(), 2);
}

TEST(HostWaitsTest, AreCountedOnceAtATime) {
  const HostWaits waits;
  EXPECT_THROW(HostWaits(), Error);
}

GraphSetup setup_there() {
  GraphSetup setup;
  setup.options = {.micro_batch_size = 12, .max_grad_norm = 0.5, .compute = {.device = gpu()}};
  return setup;
}

// Two steps, then one that is looked at.
void expect_no_waits(GraphRun& run) {
  for (int64_t step = 0; step < 2; ++step) {
    auto batch = run.source.loader->next();
    run.take(batch, step);
  }
  run.stepper->outcomes();
  auto batch = run.source.loader->next();
  const HostWaits waits;
  run.take(batch, 2);
  EXPECT_THAT(waits.by_operator(), IsEmpty());
  run.stepper->outcomes();
  EXPECT_GT(waits.count(), 0);  // what a line of the log asks for
}

TEST(HostWaitsTest, AStepOfAClassifierHasNone) {
  GraphRun run(setup_there());
  expect_no_waits(run);
}

}  // namespace
}  // namespace fovea::stub_gpu
