#include "fovea/config/checked_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

struct Part {
  int64_t width = 4;

  void validate(ConfigIssues& issues) const {
    if (width % 2 != 0) issues.add("width", "odd; expected an even number");
  }
};

struct Whole {
  Part part;
  int64_t depth = 1;

  void validate(ConfigIssues& issues) const {
    if (depth < 1) issues.add("depth", "too small; expected 1 or more");
  }
};

template <class F>
std::string fault_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(CheckedConfigTest, SaysEveryIssueWithItsKey) {
  const auto fault = [](const Whole& whole) {
    return fault_of([&] { check_config("model", whole, "part", whole.part); });
  };
  EXPECT_EQ(fault({}), "none");
  EXPECT_EQ(fault({.part = {3}, .depth = 0}),
            "model:\n  part.width: odd; expected an even number\n"
            "  depth: too small; expected 1 or more");
  EXPECT_EQ(fault_of([] { check_config("part", Part{5}); }),
            "part:\n  width: odd; expected an even number");
}

}  // namespace
}  // namespace fovea
