#include "fovea/recipe_import/gin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

std::string gin_value(const std::string& text, const std::string& name) {
  const auto root = parse_gin(text, "a.gin");
  const auto* node = root.find(name);
  return node ? emit_yaml_flow(*node) : "(none)";
}

std::string gin_fault(const std::string& text) {
  try {
    parse_gin(text, "a.gin");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(GinTest, Values) {
  EXPECT_EQ(gin_value("a.b = 3", "a.b"), "3");
  EXPECT_EQ(gin_value("a.b = -1.0e-5 # a remark", "a.b"), "-1.0e-5");
  EXPECT_EQ(gin_value("a.b = True", "a.b"), "true");
  EXPECT_EQ(gin_value("a.b = None", "a.b"), "null");
  EXPECT_EQ(gin_value("s/a.b = \"x # {0..9}.tar\"", "s/a.b"), "\"x # {0..9}.tar\"");
  EXPECT_EQ(gin_value("a.b = (224,224,\n  3)", "a.b"), "[224, 224, 3]");
  EXPECT_EQ(gin_value("a.b = [@x.f(), @y.g]", "a.b"), "[@x.f(), @y.g]");
  EXPECT_EQ(gin_value("a.b = {'k': [1], 'l': None}", "a.b"), "{k: [1], l: null}");
}

TEST(GinTest, BlocksAndMacros) {
  const std::string text =
      "from __gin__ import dynamic_registration\nimport optax as o\n"
      "RATE = 0.5\nOTHER = %RATE\n"
      "a.f:\n  x = %OTHER\n  y = %gin.REQUIRED\n\n  z = [%RATE]\nb.g.w = 1\n";
  EXPECT_EQ(gin_value(text, "a.f.x"), "0.5");
  EXPECT_THAT(gin_value(text, "a.f.y"), HasSubstr("%gin.REQUIRED"));
  EXPECT_EQ(gin_value(text, "a.f.z"), "[0.5]");
  EXPECT_EQ(gin_value(text, "b.g.w"), "1");
  EXPECT_EQ(gin_value("a.b = 1\na.b = 2", "a.b"), "2");
}

TEST(GinTest, Includes) {
  const auto read = [](const std::string& name) {
    if (name == "base.gin") return std::string("a.b = 1\na.c = 1");
    return std::string("include 'loop.gin'");
  };
  const auto root = parse_gin("include 'base.gin'\na.b = 2", "top.gin", read);
  EXPECT_EQ(emit_yaml_flow(*root.find("a.b")), "2");
  EXPECT_EQ(emit_yaml_flow(*root.find("a.c")), "1");
  EXPECT_THROW(parse_gin("include 'loop.gin'", "top.gin", read), ConfigError);
  EXPECT_THAT(gin_fault("include 'base.gin'"), HasSubstr("not at hand"));
}

TEST(GinTest, FaultsNameTheLine) {
  EXPECT_THAT(gin_fault("a.b = 1\na.c = [1, 2"), HasSubstr("a.gin:2: a bracket has no end"));
  EXPECT_THAT(gin_fault("a.b = 1\n\na.c 2"), HasSubstr("a.gin:3: "));
  EXPECT_THAT(gin_fault("a.b = 'x"), HasSubstr("a text has no end"));
  EXPECT_THAT(gin_fault("a.b ="), HasSubstr("found no value"));
  EXPECT_THAT(gin_fault("a.b = {1: 2, 1: 3}"), HasSubstr("comes twice"));
  EXPECT_THAT(gin_fault("a = " + std::string(100, '[')), HasSubstr("too deep"));
  EXPECT_THAT(gin_fault("a.b = 1 2"), HasSubstr("expected a new line"));
  EXPECT_THAT(gin_fault("M = %M\na = %M"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace fovea
