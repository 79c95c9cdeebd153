// trainer.micro_batch_size: auto, on a GPU whose memory runs out.
#include "fovea/kernels/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/train/step/pass_size.h"
#include "tests/stub_gpu/stub_gpu.h"
#include "tests/train/graph_run.h"

namespace fovea::stub_gpu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using train::testing::GraphRun;
using train::testing::GraphSetup;

constexpr int64_t kBatch = 24;

bool says_out_of_memory(const std::string& text) {
  return kernels::is_out_of_memory(c10::Error({__func__, __FILE__, __LINE__}, text));
}

TEST(GpuMemoryTest, RunsOutInTheWordsOfEachLibrary) {
  EXPECT_TRUE(says_out_of_memory("CUDA error: out of memory\nCUDA kernel errors might be ..."));
  EXPECT_TRUE(
      says_out_of_memory("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublas...`"));
  EXPECT_TRUE(says_out_of_memory("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"));
  EXPECT_TRUE(
      says_out_of_memory("NCCL error in: x.cpp, ncclUnhandledCudaError: Call to CUDA "
                         "function failed.\nLast error:\nCuda failure 2 'out of memory'"));
  EXPECT_TRUE(says_out_of_memory("HIP error: out of memory\nHIP kernel errors might be ..."));
  EXPECT_TRUE(
      says_out_of_memory("CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblas...`"));
  EXPECT_FALSE(says_out_of_memory("CUDA error: an illegal memory access was encountered"));
  EXPECT_FALSE(says_out_of_memory("NCCL error in: x.cpp, ncclUnhandledCudaError: 'no device'"));
}

// Of which a step takes far more for activations than for weights.
train::TrainConfig wide_config(const data::testing::TempDir& folder) {
  auto config = train::testing::tiny_config(folder);
  models::VitConfig vit;
  vit.img_size = {8};
  vit.patch_size = {1};
  vit.in_chans = 1;
  vit.num_classes = 4;
  vit.embed_dim = 32;
  vit.depth = 1;
  vit.num_heads = 2;
  config.model = {vit};
  return config;
}

GraphSetup setup_of(int64_t micro_batch_size, train::PassSize* passes = nullptr) {
  GraphSetup setup;
  setup.make = wide_config;
  setup.options = {.micro_batch_size = micro_batch_size,
                   .passes = passes,
                   .max_grad_norm = 0.5,
                   .compute = {.device = gpu()}};
  return setup;
}

// A step of so many samples a pass, or of what `passes` comes to.
struct OneStep {
  explicit OneStep(int64_t micro_batch_size, train::PassSize* passes = nullptr)
      : run(setup_of(micro_batch_size, passes)) {}

  void take() {
    auto batch = run.source.loader->next();
    ASSERT_EQ(batch.size(), kBatch);
    run.take(batch, 0);
    run.stepper->outcomes();
  }

  GraphRun run;
};

int64_t peak_of(int64_t micro_batch_size) {
  OneStep step(micro_batch_size);
  forget_asked();
  const auto before = memory().in_use;
  step.take();
  return memory().peak - before;
}

class GpuPassesTest : public ::testing::Test {
 protected:
  ~GpuPassesTest() override {
    limit_memory(0);
    limit_rows_of_products(0);
  }

  // What the smaller passes come to are those of a run that began with them.
  void expect_six(OneStep& found) {
    EXPECT_EQ(passes_.size(), 6);
    EXPECT_THAT(told_, ElementsAre(kBatch, 12, 12, 6));
    OneStep expected(6);
    expected.take();
    train::testing::expect_same_run(found.run, expected.run, "after the step");
  }

  std::vector<int64_t> told_;
  std::string fault_;
  train::PassSize passes_{
      0, [this](int64_t size, int64_t from, const std::string& fault, bool goes_on) {
        told_.insert(told_.end(), {from, size});
        fault_ = fault;
        EXPECT_TRUE(goes_on);
      }};
};

TEST_F(GpuPassesTest, AreHalvedUntilTheyFit) {
  const auto six = peak_of(6), twelve = peak_of(12);
  ASSERT_GT(twelve, six * 5 / 4);
  OneStep found(0, &passes_);
  const auto emptied = memory().emptied;
  limit_memory(memory().in_use + (six + twelve) / 2);
  found.take();
  limit_memory(0);
  EXPECT_THAT(fault_, HasSubstr("CUDA out of memory. Tried to allocate"));
  EXPECT_EQ(memory().emptied, emptied + 2);  // for what the smaller ones ask
  expect_six(found);
}

// In a thread of the device, where backward passes are.
TEST_F(GpuPassesTest, AreHalvedWhereALibraryOfTheDeviceGetsNoMemory) {
  OneStep found(0, &passes_);
  limit_rows_of_products(6 * 65);  // patches and the class token
  found.take();
  limit_rows_of_products(0);
  EXPECT_THAT(fault_, HasSubstr("CUBLAS_STATUS_ALLOC_FAILED"));
  expect_six(found);
}

}  // namespace
}  // namespace fovea::stub_gpu
