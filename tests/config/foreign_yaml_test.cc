#include "fovea/config/foreign_yaml.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

std::string read_flow(const std::string& yaml) {
  return emit_yaml_flow(parse_foreign_yaml(yaml, "other.yaml"));
}

std::string foreign_fault(const std::string& yaml) {
  try {
    parse_foreign_yaml(yaml, "other.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "(none)";
}

TEST(ForeignYamlTest, AliasesStandForTheirValues) {
  EXPECT_EQ(read_flow("a: &x 1\nb: *x\nc: [*x, &y {d: 2}]\ne: *y"),
            "{a: 1, b: 1, c: [1, {d: 2}], e: {d: 2}}");
  EXPECT_EQ(read_flow("a: &x [1, 2]\nb: &x 3\nc: *x"), "{a: [1, 2], b: 3, c: 3}");
  EXPECT_EQ(read_flow("&k a: 1\nb: *k\n"), "{a: 1, b: a}");
  EXPECT_EQ(read_flow("a: &n\nb: *n"), "{a: null, b: null}");
}

// As PyYAML: what a map says itself counts, and of several maps the first.
TEST(ForeignYamlTest, MergeKeysFillUp) {
  EXPECT_EQ(read_flow("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}"),
            "{a: {p: 1, q: 2}, b: {q: 3, p: 1}}");
  EXPECT_EQ(read_flow("a: &x {p: 1}\nb: &y {p: 2, r: 4}\nc:\n  <<: [*x, *y]\n"),
            "{a: {p: 1}, b: {p: 2, r: 4}, c: {p: 1, r: 4}}");
  EXPECT_EQ(read_flow("a: &x {p: 1}\nb: &y {<<: *x, q: 2}\nc: {<<: *y}"),
            "{a: {p: 1}, b: {q: 2, p: 1}, c: {q: 2, p: 1}}");
}

TEST(ForeignYamlTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(foreign_fault("a: &x [*x]"), ::testing::HasSubstr("other.yaml:1"));
  EXPECT_NE(foreign_fault("a: *x"), "(none)");
  EXPECT_NE(foreign_fault("a: {<<: 3}"), "(none)");
  EXPECT_NE(foreign_fault("a: &x {b: 1}\n? *x\n: 2"), "(none)");
  EXPECT_NE(foreign_fault("a: !!python/tuple [1]"), "(none)");
  EXPECT_THROW(parse_config_yaml("a: &x 1\nb: *x", "recipe.yaml"), ConfigError);
}

// Values that double with each line end at the limit of values, not of memory.
TEST(ForeignYamlTest, WhatIsPutInCounts) {
  std::string doubled = "x0: &x0 [1, 1]\n";
  for (int i = 1; i < 40; ++i) {
    doubled += fmt::format("x{0}: &x{0} [*x{1}, *x{1}]\n", i, i - 1);
  }
  EXPECT_THAT(foreign_fault(doubled), ::testing::HasSubstr("more than"));
  std::string nested = "x0: &x0 [1]\n";
  for (int i = 1; i < 200; ++i) nested += fmt::format("x{0}: &x{0} [*x{1}]\n", i, i - 1);
  EXPECT_THAT(foreign_fault(nested), ::testing::HasSubstr("nested deeper"));
}

}  // namespace
}  // namespace fovea
