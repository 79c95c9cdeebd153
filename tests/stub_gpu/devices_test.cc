// Which GPU gives the memory of a step.
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/kernels/tensor_memory.h"
#include "tests/stub_gpu/stub_device.h"
#include "tests/stub_gpu/stub_gpu.h"
#include "tests/train/graph_run.h"

namespace fovea::stub_gpu {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;

// While the first one is the current one, as in a process that was told nothing.
TEST(DevicesTest, AStepOfTheSecondGpuTakesMemoryOfThatAlone) {
  train::testing::GraphSetup setup;
  setup.options = {.micro_batch_size = 12, .max_grad_norm = 0.5, .compute = {.device = gpu(1)}};
  ASSERT_EQ(current_device(), 0);
  forget_asked();
  train::testing::GraphRun run(setup);
  for (int64_t step = 0; step < 2; ++step) {
    auto batch = run.source.loader->next();
    run.take(batch, step);
  }
  run.stepper->outcomes();
  EXPECT_THAT(memory().asked, Not(IsEmpty()));
  EXPECT_THAT(memory().asked, Each(1));
  EXPECT_EQ(current_device(), 0);
}

// As FSDP gathers weights.
TEST(DevicesTest, MemoryThatComesBackIsOfTheTensorsOwnGpu) {
  const auto x = at::empty({6}, at::TensorOptions().device(gpu(1)));
  kernels::give_memory_back(x);
  forget_asked();
  kernels::take_memory(x);
  EXPECT_THAT(memory().asked, ::testing::ElementsAre(1));
}

}  // namespace
}  // namespace fovea::stub_gpu
