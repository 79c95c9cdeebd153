// How long idle threads of the OpenMP library spin: what that library says it has read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/apps/program.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

std::string settings_with(const std::string& variables) {
  return run_fovea("--version",
                   "unset OMP_WAIT_POLICY GOMP_SPINCOUNT; OMP_DISPLAY_ENV=verbose " + variables)
      .output;
}

TEST(SpinLimitTest, IsSetBeforeTheLibraryStarts) {
  const auto text = settings_with("");
  EXPECT_THAT(text, AllOf(HasSubstr("GOMP_SPINCOUNT = '1000'"), HasSubstr("fovea 0")));
  const std::string begin = "OPENMP DISPLAY ENVIRONMENT BEGIN";
  EXPECT_EQ(text.find(begin), text.rfind(begin)) << "it has started twice";
}

TEST(SpinLimitTest, IsTheUsersWhereItIsSet) {
  EXPECT_THAT(settings_with("GOMP_SPINCOUNT=77"), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(settings_with("OMP_WAIT_POLICY=passive"), HasSubstr("GOMP_SPINCOUNT = '0'"));
}

// "env -i": nobody is there whose place could be taken.
TEST(SpinLimitTest, IsSetInAnEmptyEnvironmentToo) {
  const auto text = run_fovea("--version", "env -i OMP_DISPLAY_ENV=verbose").output;
  EXPECT_THAT(text, AllOf(HasSubstr("GOMP_SPINCOUNT = '1000'"), HasSubstr("fovea 0")));
}

}  // namespace
}  // namespace fovea
