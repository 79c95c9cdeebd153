#include "fovea/kernels/gpu_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/kernels/amd_architecture.h"
#include "tests/support/temp_dir.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;

const GpuFacts kH200{.driver_version = 13000,
                     .runtime_version = 13000,
                     .module_path = "lib/libfovea_cuda.so",
                     .module_version = "1.2.3",
                     .module_code = "80-real,89-real,90-real,100",
                     .capabilities = {90}};

TEST(GpuFactsTest, OfAMachineAsItShouldBe) { EXPECT_EQ(why_no_gpu(kH200, "1.2.3"), ""); }

TEST(GpuFactsTest, AModuleOfAnotherVersionIsNamed) {
  const auto why = why_no_gpu(kH200, "1.3.0");
  EXPECT_THAT(why, HasSubstr("lib/libfovea_cuda.so is of Fovea 1.2.3, and this program is 1.3.0"));
  auto older = kH200;
  older.module_version = "";  // from before modules told theirs
  EXPECT_THAT(why_no_gpu(older, "1.3.0"), HasSubstr("before 0.1"));
}

TEST(GpuFactsTest, ADriverThatIsTooOldIsNamed) {
  auto facts = kH200;
  facts.capabilities = {};
  EXPECT_THAT(why_no_gpu(facts, "1.2.3"), HasSubstr("sees no GPU; check nvidia-smi"));
  facts.driver_version = 12040;
  EXPECT_THAT(why_no_gpu(facts, "1.2.3"),
              HasSubstr("the NVIDIA driver is for CUDA 12.4 at most, and libtorch for 13.0"));
}

TEST(GpuFactsTest, AGpuWithoutCodeIsNamed) {
  auto facts = kH200;
  facts.capabilities = {90, 75};
  const auto why = why_no_gpu(facts, "1.2.3");
  EXPECT_THAT(why, HasSubstr("none for GPU 1 of capability 7.5"));
  EXPECT_THAT(why, HasSubstr("CMAKE_CUDA_ARCHITECTURES=75"));
  facts.capabilities = {0};  // nobody says
  EXPECT_EQ(why_no_gpu(facts, "1.2.3"), "");
}

TEST(GpuFactsTest, OfAMachineWithGpusOfAmd) {
  auto facts = kH200;
  facts.driver_version = 0;
  facts.module_path = "lib/libfovea_hip.so";
  facts.module_code = "gfx90a,gfx942";
  facts.capabilities = {0x90a, 0x942, 0};
  EXPECT_EQ(why_no_gpu(facts, "1.2.3"), "");
  facts.capabilities = {0x90a, 0x1100};
  const auto why = why_no_gpu(facts, "1.2.3");
  EXPECT_THAT(why, HasSubstr("none for GPU 1, a gfx1100"));
  EXPECT_THAT(why, HasSubstr("-DFOVEA_HIP_ARCHITECTURES=gfx1100"));
  facts.capabilities = {};
  EXPECT_THAT(why_no_gpu(facts, "1.2.3"), HasSubstr("sees no GPU; check rocm-smi"));
}

TEST(GpuFactsTest, NamesOfAmdArchitecturesAreHexadecimal) {
  EXPECT_EQ(amd_architecture("gfx90a"), 0x90a);
  EXPECT_EQ(amd_architecture("gfx90a:sramecc+:xnack-"), 0x90a);
  EXPECT_EQ(amd_architecture("gfx1100"), 0x1100);
  for (const char* other :
       {"", "gfx", "gfx:", "90a", "gfx90a ", "gfx9-generic", "80-real", "100"}) {
    EXPECT_EQ(amd_architecture(other), 0) << other;
  }
}

TEST(GpuFactsTest, ALibtorchIsForTheGpusOfOneVendor) {
  const support::TempDir folder;
  EXPECT_STREQ(gpu_stack_of(folder.path()).module, "libfovea_cuda.so");
  EXPECT_STREQ(gpu_stack_of(folder.path() + "/nowhere").driver, "libcuda.so.1");
  folder.write("libtorch_hip.so", std::string());
  EXPECT_STREQ(gpu_stack_of(folder.path()).module, "libfovea_hip.so");
}

TEST(GpuFactsTest, TwoLibtorchAreNamed) {
  EXPECT_EQ(why_two_torch({}), "");
  EXPECT_EQ(why_two_torch({"/a/lib/libc10.so", "/a/lib/libtorch_cpu.so"}), "");
  EXPECT_THAT(
      why_two_torch({"/a/lib/libc10.so", "/a/lib/libtorch_cpu.so", "/b/lib/libc10_cuda.so"}),
      HasSubstr("two libtorch are mixed, /a/lib/libc10.so and /b/lib/libc10_cuda.so"));
}

TEST(GpuFactsTest, TheLibrariesOfThisProcessAreOfOneLibtorch) {
  const auto loaded = loaded_torch_libraries();
  EXPECT_THAT(loaded, testing::Contains(HasSubstr("libtorch_cpu.so")));
  EXPECT_THAT(loaded, testing::Contains(HasSubstr("libc10.so")));
  EXPECT_EQ(why_two_torch(loaded), "");
}

TEST(GpuFactsTest, CodeRunsOnItsOwnMajorNumberAndPtxOnAllLaterOnes) {
  const auto* all = "80-real,89-real,90-real,100";
  for (const int capability : {80, 86, 87, 89, 90, 100, 103, 120}) {
    EXPECT_TRUE(has_code_for(capability, all)) << capability;
  }
  EXPECT_FALSE(has_code_for(75, all));
  EXPECT_FALSE(has_code_for(100, "90-real"));
  EXPECT_FALSE(has_code_for(86, "89-real"));
  EXPECT_TRUE(has_code_for(100, "90"));
  EXPECT_TRUE(has_code_for(100, "90-virtual"));
  EXPECT_FALSE(has_code_for(90, ""));
  EXPECT_TRUE(has_code_for(0x90a, "gfx90a,gfx942"));
  EXPECT_FALSE(has_code_for(0x908, "gfx90a,gfx942"));
}

}  // namespace
}  // namespace fovea::kernels
