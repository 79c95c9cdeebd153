// Trees of keys in a config, and configs changed by them.
#include "fovea/config/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/config/config.h"
#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CircleConfig {
  static constexpr std::string_view kName = "circle";
  double radius = 1;
  std::string label = "round";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("radius", self.radius, "half its width", {.min = 0});
    v.field("label", self.label, "what stands below");
  }
};

struct SquareConfig {
  static constexpr std::string_view kName = "square";
  double side = 2;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("side", self.side, "its width", {.min = 0});
  }
};

using ShapeConfig = OneOf<CircleConfig, SquareConfig>;

// Sizes by name: what the preset says, changed by the other keys.
struct SizeConfig {
  std::string preset;
  int64_t width = 1;
  int64_t height = 1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("preset", self.preset, "named sizes");
    v.field("width", self.width, "from left to right", {.min = 1});
    v.field("height", self.height, "from top to bottom", {.min = 1});
  }
  bool apply_preset(const std::string& name) {
    if (name != "small" && name != "large") return false;
    const int64_t side = name == "small" ? 10 : 100;
    *this = {.preset = name, .width = side, .height = side};
    return true;
  }
  static std::vector<std::string> preset_names() { return {"small", "large"}; }
};

struct DrawingConfig {
  ShapeConfig shape;
  SizeConfig size;
  std::optional<ShapeConfig> frame;
  std::vector<int64_t> color = {0, 0, 0};
  ConfigTree later;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("shape", self.shape, "what is drawn");
    v.field("size", self.size, "of the sheet");
    v.field("frame", self.frame, "what is drawn around it");
    v.field("color", self.color, "of the line");
    v.field("later", self.later, "keys of a second drawing that are other");
  }
  void check() const {
    if (later.empty()) return;
    auto base = *this;
    base.later = {};
    changed_config(base, later, "the second drawing");
  }
};

DrawingConfig read(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_config<DrawingConfig>(yaml, "drawing.yaml", overrides);
}

DrawingConfig second(const DrawingConfig& first) {
  auto base = first;
  base.later = {};
  return changed_config(base, first.later, "the second drawing");
}

std::string message_of(const std::string& yaml) {
  try {
    read(yaml);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ConfigMergeTest, ChangesWhatIsGivenAndKeepsTheRest) {
  const auto first = read(
      "shape: {name: circle, radius: 3, label: sun}\n"
      "color: [1, 2, 3]\n"
      "later: {shape: {radius: 4}, color: [9]}\n");
  const auto changed = second(first);
  const auto* circle = changed.shape.get_if<CircleConfig>();
  ASSERT_NE(circle, nullptr);
  EXPECT_EQ(circle->radius, 4);
  EXPECT_EQ(circle->label, "sun");
  EXPECT_THAT(changed.color, ElementsAre(9));
}

TEST(ConfigMergeTest, AnotherAlternativeIsGivenAnew) {
  const auto changed =
      second(read("shape: {name: circle, radius: 3}\nlater: {shape: {name: square}}\n"));
  const auto* square = changed.shape.get_if<SquareConfig>();
  ASSERT_NE(square, nullptr);
  EXPECT_EQ(square->side, 2);
  // The same alternative named again, and the short form.
  const auto same =
      second(read("shape: {radius: 3, label: sun}\n"
                  "later: {shape: {name: circle, radius: 5}}\n"));
  EXPECT_EQ(same.shape.get_if<CircleConfig>()->label, "sun");
  EXPECT_NE(second(read("later: {shape: square}\n")).shape.get_if<SquareConfig>(), nullptr);
}

TEST(ConfigMergeTest, AnotherPresetIsGivenAnew) {
  const auto kept = second(read("size: {preset: small, width: 7}\nlater: {size: {height: 8}}\n"));
  EXPECT_EQ(kept.size.width, 7);
  EXPECT_EQ(kept.size.height, 8);
  const auto other =
      second(read("size: {preset: small, width: 7}\nlater: {size: {preset: large}}\n"));
  EXPECT_EQ(other.size.width, 100);
}

TEST(ConfigMergeTest, OptionalSectionsAreMadeChangedAndTakenAway) {
  const auto made = second(read("later: {frame: {name: square, side: 5}}\n"));
  EXPECT_EQ(made.frame->get_if<SquareConfig>()->side, 5);
  const auto changed =
      second(read("frame: {name: circle, radius: 2, label: a}\n"
                  "later: {frame: {radius: 6}}\n"));
  EXPECT_EQ(changed.frame->get_if<CircleConfig>()->radius, 6);
  EXPECT_EQ(changed.frame->get_if<CircleConfig>()->label, "a");
  EXPECT_FALSE(second(read("frame: {name: square}\nlater: {frame: null}\n")).frame);
}

TEST(ConfigMergeTest, FaultsHaveTheirLineAndTheNearestKey) {
  EXPECT_THAT(message_of("shape: {radius: 3}\nlater:\n  shape: {radus: 4}\n"),
              AllOf(HasSubstr("drawing.yaml:3: shape.radus: unknown key"), HasSubstr("radius")));
  EXPECT_THAT(message_of("later:\n  color: [1]\n  size: {width: 0}\n"),
              HasSubstr("drawing.yaml:3: size.width: found 0 (integer), expected an integer >= 1"));
  EXPECT_THAT(message_of("later: {shape: {name: square, radius: 4}}\n"),
              HasSubstr("it belongs to shape.name=circle"));
  EXPECT_THAT(message_of("later: [1]\n"), HasSubstr("later: found a list of 1, expected a map"));
}

TEST(ConfigMergeTest, TreesArePrintedAndReadAgain) {
  const auto first = read(
      "later:\n"
      "  shape:\n"
      "    label: blocks.*, and more\n"
      "  color: [4]\n"
      "  frame: {name: square, side: 1e-3}\n");
  EXPECT_EQ(second(first).shape.get_if<CircleConfig>()->label, "blocks.*, and more");
  const auto text = dump_config(first);
  const auto again = read(text);
  EXPECT_EQ(dump_config(again), text);
  EXPECT_TRUE(config_diff(first, again).empty());
  EXPECT_EQ(dump_config(second(again)), dump_config(second(first)));
  const auto other = read("later: {color: [5]}\n");
  EXPECT_FALSE(config_diff(first, other).empty());
}

TEST(ConfigMergeTest, OverridesReachIntoATree) {
  EXPECT_EQ(second(read("", {"later.size.width=6"})).size.width, 6);
  const auto both = second(read("later: {size: {width: 5}}\n", {"later.size.height=6"}));
  EXPECT_EQ(both.size.width, 5);
  EXPECT_EQ(both.size.height, 6);
}

TEST(ConfigMergeTest, KeysAndSchemaNameATreeOnce) {
  int found = 0;
  for (const auto& key : config_keys<DrawingConfig>()) {
    if (!key.key.starts_with("later")) continue;
    found += 1;
    EXPECT_EQ(key.type, "map of keys");
  }
  EXPECT_EQ(found, 1);
}

// Keys that say the same otherwise.
struct LengthConfig {
  std::optional<double> epochs;
  std::optional<int64_t> steps;
  std::string folder;
  std::vector<std::string> files;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("epochs", self.epochs, "passes", {.instead_of = {"steps"}});
    v.field("steps", self.steps, "steps", {.instead_of = {"epochs"}});
    v.field("folder", self.folder, "all files of a folder", {.instead_of = {"files"}});
    v.field("files", self.files, "some files", {.instead_of = {"folder"}});
  }
};

struct RunLengthConfig {
  LengthConfig run;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("run", self.run, "how long");
  }
};

struct ReadLength {
  LengthConfig run;
  std::string said;
};

ReadLength read_length(const std::string& yaml, const std::vector<std::string>& overrides) {
  ::testing::internal::CaptureStderr();
  const auto config = parse_config<RunLengthConfig>(yaml, "length.yaml", overrides);
  return {config.run, ::testing::internal::GetCapturedStderr()};
}

TEST(InsteadOfTest, TheCommandLineTakesThePlaceOfTheFile) {
  const auto steps = read_length("run:\n  epochs: 3\n", {"run.steps=20"});
  EXPECT_EQ(steps.run.steps, 20);
  EXPECT_FALSE(steps.run.epochs);
  EXPECT_THAT(steps.said, HasSubstr("run.steps=20 takes the place of epochs: 3 (length.yaml:2)"));
  EXPECT_EQ(std::count(steps.said.begin(), steps.said.end(), '\n'), 1);
  const auto epochs = read_length("run: {epochs: null, steps: 9}", {"run.epochs=2"});
  EXPECT_EQ(epochs.run.epochs, 2);
  EXPECT_FALSE(epochs.run.steps);
  const auto files = read_length("run: {folder: /data}", {"run.files=[a, b]"});
  EXPECT_EQ(files.run.folder, "");
  EXPECT_EQ(files.run.files.size(), 2u);
}

TEST(InsteadOfTest, BothInOnePlaceStayAndNothingTakesNoPlace) {
  const auto in_file = read_length("run: {epochs: 3, steps: 20}", {});
  EXPECT_TRUE(in_file.run.epochs && in_file.run.steps);
  const auto on_line = read_length("run: {epochs: 1}", {"run.epochs=3", "run.steps=20"});
  EXPECT_EQ(on_line.run.epochs, 3);
  EXPECT_EQ(on_line.run.steps, 20);
  const auto none = read_length("run: {epochs: 3, folder: x}", {"run.steps=null", "run.files=[]"});
  EXPECT_EQ(none.run.epochs, 3);
  EXPECT_EQ(none.run.folder, "x");
  EXPECT_EQ(none.said + in_file.said + on_line.said, "");
}

TEST(InsteadOfTest, ChangesTakeThePlaceOfWhatTheyChange) {
  RunLengthConfig base;
  base.run.epochs = 3;
  base.run.folder = "x";
  const auto change = [&](const char* yaml) {
    return changed_config(base, {parse_config_yaml(yaml, "phases.yaml")}, "phase 2").run;
  };
  EXPECT_FALSE(change("run: {steps: 20}").epochs);
  EXPECT_EQ(change("run: {steps: 20}").folder, "x");
  EXPECT_EQ(change("run: {steps: 20, epochs: 5}").epochs, 5);
  EXPECT_EQ(change("run: {steps: null}").epochs, 3);
}

}  // namespace
}  // namespace fovea
