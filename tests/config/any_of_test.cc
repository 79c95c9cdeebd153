#include "fovea/config/any_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

struct RingConfig {
  static constexpr std::string_view kName = "circle";
  double radius = 1;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("radius", self.radius, "radius", {.min = 0});
  }
};

struct BlockConfig {
  static constexpr std::string_view kName = "square";
  double side = 2;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("side", self.side, "side", {.min = 0});
  }
  void validate(ConfigIssues& issues) const {
    if (side == 13) issues.add("side", "13; expected another");
  }
};

struct LineConfig {
  static constexpr std::string_view kName = "line";
  template <class Visitor, class Self>
  static void visit(Visitor&, Self&) {}
};

class Figure : public ConfigAlternative {
 public:
  static const ConfigAlternatives& alternatives();
  virtual double length() const = 0;
};

class Shape : public Figure {
 public:
  static const ConfigAlternatives& alternatives();
  virtual double area() const = 0;
};

struct Circle final : ConfigHolder<Shape, RingConfig, Circle> {
  double length() const override { return 6 * config.radius; }
  double area() const override { return 3 * config.radius * config.radius; }
};
struct Square final : ConfigHolder<Shape, BlockConfig, Square> {
  double length() const override { return 4 * config.side; }
  double area() const override { return config.side * config.side; }
};
struct Line final : ConfigHolder<Figure, LineConfig, Line> {
  double length() const override { return 1; }
};

const ConfigAlternatives& Shape::alternatives() {
  static const ConfigAlternatives all = {alternative<Circle>(), alternative<Square>()};
  return all;
}

const ConfigAlternatives& Figure::alternatives() {
  static const ConfigAlternatives all = {alternative<Circle>(), alternative<Square>(),
                                         alternative<Line>()};
  return all;
}

struct PageConfig {
  AnyOf<Shape> shape = {};
  std::vector<AnyOf<Figure>> figures = {{LineConfig{}}, {BlockConfig{.side = 5}}};
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("shape", self.shape, "the shape");
    v.field("figures", self.figures, "all of them");
  }
};

// The same keys with OneOf.
struct PlainPageConfig {
  OneOf<RingConfig, BlockConfig> shape = {};
  std::vector<OneOf<RingConfig, BlockConfig, LineConfig>> figures = {{LineConfig{}},
                                                                     {BlockConfig{.side = 5}}};
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("shape", self.shape, "the shape");
    v.field("figures", self.figures, "all of them");
  }
};

template <class Page>
std::string answer(const std::string& yaml) {
  try {
    return dump_config(parse_config<Page>(yaml, "page.yaml"));
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(AnyOfTest, RecipesAndMessagesAreThoseOfOneOf) {
  for (const std::string yaml :
       {"", "shape: square", "shape: {name: square, side: 3}", "shape: {side: 3}",
        "shape: {name: square, side: 13}", "shape: {name: sqare}", "shape: [1]",
        "shape: {name: circle, radius: -1, sied: 2}", "figures: [line, {name: square}]",
        "figures: [{side: 1}]", "figures: [{name: circle, length: 3}, lien]"}) {
    EXPECT_EQ(answer<PageConfig>(yaml), answer<PlainPageConfig>(yaml)) << yaml;
  }
}

TEST(AnyOfTest, AnswersThroughItsInterface) {
  const auto page = parse_config<PageConfig>("shape: {name: square, side: 3}", "page.yaml");
  EXPECT_EQ(page.shape->area(), 9);
  EXPECT_EQ(page.shape.name(), "square");
  EXPECT_EQ(page.shape.get_if<RingConfig>(), nullptr);
  EXPECT_EQ(page.shape.get_if<BlockConfig>()->side, 3);
  EXPECT_EQ(page.figures[1]->length(), 20);
}

TEST(AnyOfTest, CopiesAreApart) {
  AnyOf<Shape> first = BlockConfig{.side = 3};
  AnyOf<Shape> second = first;
  second.get_if<BlockConfig>()->side = 4;
  EXPECT_EQ(first->area(), 9);
  first = std::move(second);
  EXPECT_EQ(first->area(), 16);
  first = RingConfig{};
  EXPECT_EQ(first.name(), "circle");
}

TEST(AnyOfTest, WidensAndNarrows) {
  const AnyOf<Shape> shape = BlockConfig{.side = 3};
  const AnyOf<Figure> figure = shape;
  EXPECT_EQ(figure->length(), 12);
  EXPECT_EQ(figure.as<Shape>().value()->area(), 9);
  EXPECT_FALSE(AnyOf<Figure>(LineConfig{}).as<Shape>().has_value());
}

TEST(AnyOfTest, RefusesWhatItsTableDoesNotHave) {
  try {
    AnyOf<Shape> shape{LineConfig{}};
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is none of the 2 alternatives"));
  }
}

}  // namespace
}  // namespace fovea
