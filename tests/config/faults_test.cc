#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/config/config.h"
#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct PartConfig {
  int64_t width = 8;
  int64_t depth = 2;
  int64_t heads = 4;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("width", self.width, "width", {.min = 1});
    v.field("depth", self.depth, "depth", {.min = 1});
    v.field("heads", self.heads, "heads", {.min = 1});
  }
  void validate(ConfigIssues& issues) const {
    if (depth > 9) issues.add("depth", "above 9; expected fewer");
    // The message names `depth` in passing.
    if (width % heads != 0) {
      issues.add("width", {"heads"}, "not divided by heads, whatever the depth");
    }
  }
};

struct WholeConfig {
  double rate = 0;
  PartConfig part = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("rate", self.rate, "rate", {.min = 0});
    v.field("part", self.part, "the part");
  }
  void validate(ConfigIssues& issues) const {
    if (part.depth > 4) issues.add("rate", {"part.depth"}, "too deep a part");
  }
};

std::string faults_of_whole(const std::string& yaml) {
  try {
    parse_config<WholeConfig>(yaml, "test.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ConfigFaultsTest, AFaultAcrossFieldsStaysWhereItsMessageNamesAFaultyKeyInPassing) {
  const auto all = faults_of_whole("rate: fast\npart:\n  depth: none\n  width: 7\n");
  EXPECT_THAT(all, HasSubstr("test.yaml:1: rate: found 'fast'"));
  EXPECT_THAT(all, HasSubstr("test.yaml:3: part.depth: found 'none'"));
  EXPECT_THAT(all, HasSubstr("test.yaml:4: part.width: not divided by heads, whatever the depth"));
}

TEST(ConfigFaultsTest, AFaultAcrossFieldsIsLeftOutWhereOneOfItsKeysIsFaulty) {
  for (const std::string heads : {"heads: none", "heads: 0", "haeds: 3"}) {
    const auto all = faults_of_whole("part: {width: 7, " + heads + "}\n");
    EXPECT_THAT(all, HasSubstr("part.h")) << heads;
    EXPECT_THAT(all, Not(HasSubstr("not divided"))) << heads;
  }
  EXPECT_THAT(faults_of_whole("part: {width: 7}\n"), HasSubstr("not divided"));
}

TEST(ConfigFaultsTest, AValueThatIsReadIsComparedHoweverWrongItIs) {
  const auto all = faults_of_whole("part: {depth: 10, width: 7}\n");
  EXPECT_THAT(all, HasSubstr("part.depth: above 9"));
  EXPECT_THAT(all, HasSubstr("not divided"));
  EXPECT_THAT(all, HasSubstr("rate: too deep"));
  EXPECT_THAT(faults_of_whole("part: {depth: 5}\n"), HasSubstr("rate: too deep"));
}

TEST(ConfigIssuesTest, JoinNamesTheKeysOfTheSection) {
  ConfigIssues inner, outer;
  inner.add("width", {"heads"}, "odd");
  outer.join("part", inner, {"rate"});
  ASSERT_EQ(outer.all().size(), 1u);
  EXPECT_EQ(outer.all()[0].key, "part.width");
  EXPECT_THAT(outer.all()[0].beside, ::testing::ElementsAre("part.heads", "rate"));
}

}  // namespace
}  // namespace fovea
