#include "fovea/kernels/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

using testing::HasSubstr;

std::string message_of(const std::string& name) {
  try {
    kernels::resolve_device(name);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceTest, CpuIsAlwaysThere) { EXPECT_TRUE(kernels::resolve_device("cpu").is_cpu()); }

TEST(DeviceTest, AutoIsTheGpuWhereTheBackEndLoads) {
  EXPECT_EQ(kernels::resolve_device("auto").is_cuda(), kernels::load_cuda_backend().is_loaded);
}

TEST(DeviceTest, TheBackEndAlwaysGivesItsReason) {
  EXPECT_FALSE(kernels::load_cuda_backend().reason.empty());
}

TEST(DeviceTest, UnknownNamesAreRefusedWithTheChoices) {
  for (const char* name :
       {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    EXPECT_THAT(message_of(name), testing::AllOf(HasSubstr(std::string("'") + name + "'"),
                                                 HasSubstr("expected auto, cpu, cuda or cuda:N")));
  }
}

TEST(DeviceTest, AGpuThatIsNotThereIsRefusedWithTheReason) {
  const auto& backend = kernels::load_cuda_backend();
  EXPECT_THAT(message_of("cuda:99"),
              HasSubstr(backend.is_loaded ? "this machine shows" : backend.reason));
}

}  // namespace
}  // namespace fovea
