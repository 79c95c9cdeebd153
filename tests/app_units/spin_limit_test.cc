#include "apps/fovea/spin_limit.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>

#include "fovea/core/environment.h"

namespace fovea::app {
namespace {

TEST(SpinLimitTest, PutsBackWhatLentItsPlace) {
  std::array<std::string, 4> texts = {"HOME=/home/a", "PWD=/lent", "RANK=0", "TERM=lent too"};
  std::array<char*, 5> environment{};
  for (size_t i = 0; i < texts.size(); ++i) environment[i] = texts[i].data();
  limit_spinning(0, nullptr, environment.data());
  EXPECT_STREQ(environment[0], "HOME=/home/a");
  EXPECT_STREQ(environment[1], "GOMP_SPINCOUNT=1000");
  EXPECT_STREQ(environment[2], "RANK=0");
  EXPECT_STREQ(environment[3], "TORCH_CPP_LOG_LEVEL=ERROR");

  const std::string pwd = environment_variable("PWD", ""), term = environment_variable("TERM", "");
  restore_environment();
  EXPECT_EQ(environment_variable("PWD", ""), "/lent");
  EXPECT_EQ(environment_variable("TERM", ""), "lent too");
  setenv("PWD", pwd.c_str(), 1);
  setenv("TERM", term.c_str(), 1);
}

}  // namespace
}  // namespace fovea::app
