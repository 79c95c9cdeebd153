#include "apps/fovea/failure.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>

#include "fovea/core/json.h"

namespace fovea::app {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <class Work>
Failure failure_while(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return failure_of(error);
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(FailureTest, AnOperationThatNobodyForesawIsAFaultOfTheProgramInOneLine) {
  const auto failure = failure_while([] { at::ones({2, 3}).matmul(at::ones({2, 3})); });
  EXPECT_EQ(failure.code, ExitCode::kUsage);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("libtorch cannot compute this: mat1 and mat2"),
                                     HasSubstr("please report it"), Not(HasSubstr("\n"))));
}

TEST(FailureTest, MemoryThatIsNotThereHasACodeOfItsOwn) {
  const auto failure = failure_while([] { at::ones({int64_t{1} << 60}, at::kByte); });
  EXPECT_EQ(failure.code, ExitCode::kOutOfMemory);
  EXPECT_THAT(failure.message, HasSubstr("lower trainer.micro_batch_size"));
  EXPECT_EQ(failure_while([] { throw std::bad_alloc(); }).code, ExitCode::kOutOfMemory);
}

TEST(FailureTest, ADeviceThatFailsIsNoFaultOfTheProgram) {
  const auto failure = failure_while([] {
    throw c10::AcceleratorError({"f", "f.cc", 1}, 2, "CUDA error: an illegal memory access");
  });
  EXPECT_THAT(failure.message, AllOf(HasSubstr("the device failed: CUDA error: an illegal"),
                                     HasSubstr("newest checkpoint"), Not(HasSubstr("report"))));
}

TEST(FailureTest, OwnErrorsAreToldAsTheyAre) {
  const auto failure = failure_while([] { fail<DataError>("a.png: found 3, expected 4"); });
  EXPECT_EQ(failure.message, "a.png: found 3, expected 4");
  EXPECT_EQ(failure.code, ExitCode::kData);
}

TEST(FailureTest, PathsOfTheSystemsErrorsAreNamed) {
  const auto failure =
      failure_while([] { std::filesystem::create_directory("/proc/no/such/folder"); });
  EXPECT_EQ(failure.code, ExitCode::kData);
  EXPECT_THAT(failure.message, HasSubstr("/proc/no/such/folder: No such file"));
}

}  // namespace
}  // namespace fovea::app
