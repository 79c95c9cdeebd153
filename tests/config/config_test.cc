#include "fovea/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "fovea/config/schema.h"
#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct AdamWConfig {
  static constexpr std::string_view kName = "adamw";
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr, "peak learning rate", {.min = 0});
    v.field("betas", self.betas, "decay rates of the moments",
            {.min = 0, .max = 1, .exclusive_max = true});
  }
  bool operator==(const AdamWConfig&) const = default;
};

struct SgdConfig {
  static constexpr std::string_view kName = "sgd";
  double lr = 0.1;
  double momentum = 0.9;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("lr", self.lr, "learning rate", {.min = 0});
    v.field("momentum", self.momentum, "momentum", {.min = 0});
  }
  bool operator==(const SgdConfig&) const = default;
};

struct ModelConfig {
  std::string preset;
  int64_t embed_dim = 768;
  int64_t num_heads = 12;
  bool qkv_bias = true;
  std::string global_pool = "token";
  double drop_path_rate = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("preset", self.preset, "named sizes");
    v.field("embed_dim", self.embed_dim, "token width D", {.min = 1});
    v.field("num_heads", self.num_heads, "attention heads H", {.min = 1});
    v.field("qkv_bias", self.qkv_bias, "bias of qkv");
    v.field("global_pool", self.global_pool, "pooling", {.choices = {"", "token", "avg"}});
    v.field("drop_path_rate", self.drop_path_rate, "rate",
            {.min = 0, .max = 1, .exclusive_max = true});
  }
  void validate(ConfigIssues& issues) const {
    if (embed_dim % num_heads != 0) {
      issues.add("num_heads", {"embed_dim"},
                 "num_heads=" + std::to_string(num_heads) +
                     " does not divide embed_dim=" + std::to_string(embed_dim));
    }
  }
  bool apply_preset(const std::string& name) {
    if (name != "tiny") return false;
    *this = ModelConfig();
    preset = name;
    embed_dim = 192;
    num_heads = 3;
    return true;
  }
  static std::vector<std::string> preset_names() { return {"tiny"}; }
  bool operator==(const ModelConfig&) const = default;
};

struct FlipConfig {
  static constexpr std::string_view kName = "horizontal_flip";
  double p = 0.5;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
  }
  bool operator==(const FlipConfig&) const = default;
};

struct ResizeConfig {
  static constexpr std::string_view kName = "resize";
  int64_t size = 224;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "shorter side", {.min = 1, .unit = "pixels", .required = true});
  }
  bool operator==(const ResizeConfig&) const = default;
};

using TransformConfig = OneOf<FlipConfig, ResizeConfig>;

struct ScheduleStep {
  int64_t step = 0;
  double factor = 1;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("step", self.step, "from this step on", {.min = 0});
    v.field("factor", self.factor, "times the peak");
  }
  bool operator==(const ScheduleStep&) const = default;
};

struct RunConfig {
  std::string dir;
  int64_t seed = 42;
  std::optional<int64_t> micro_batch_size;
  std::optional<double> max_grad_norm = 1.0;
  std::optional<ScheduleStep> warmup;
  std::map<std::string, double> weights;
  std::vector<std::string> tags = {"a", "b"};
  std::vector<ScheduleStep> steps;
  std::vector<TransformConfig> transforms = {{FlipConfig{}}, {ResizeConfig{}}};
  ModelConfig model;
  OneOf<AdamWConfig, SgdConfig> optim;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("dir", self.dir, "run folder", {.required = true});
    v.field("seed", self.seed, "seed");
    v.field("micro_batch_size", self.micro_batch_size, "per pass",
            {.min = 1, .unit = "samples", .null_word = "auto"});
    v.field("max_grad_norm", self.max_grad_norm, "clip at", {.min = 0, .exclusive_min = true});
    v.field("warmup", self.warmup, "warm-up");
    v.field("weights", self.weights, "by name", {.min = 0});
    v.field("tags", self.tags, "words");
    v.field("steps", self.steps, "schedule");
    v.field("transforms", self.transforms, "in this order");
    v.field("model", self.model, "the model");
    v.field("optim", self.optim, "the optimizer");
  }
  bool operator==(const RunConfig& other) const;
};

template <class... Alternatives>
bool operator==(const OneOf<Alternatives...>& a, const OneOf<Alternatives...>& b) {
  return a.value == b.value;
}

bool RunConfig::operator==(const RunConfig& other) const {
  return dump_config(*this) == dump_config(other) && optim.value == other.optim.value &&
         transforms.size() == other.transforms.size() && model == other.model && dir == other.dir;
}

RunConfig parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_config<RunConfig>(yaml, "recipe.yaml", overrides);
}

std::string faults(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    parse(yaml, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(ConfigTest, ReadsEveryFieldType) {
  const RunConfig config = parse(R"(
dir: "runs/x"
seed: 1e6
micro_batch_size: 16
max_grad_norm: null
warmup: {step: 5}
weights: {bce: 0.5, dice: 2}
tags: [x, "1"]
steps:
  - step: 10
    factor: 1e-1
  - {step: 20}
transforms: [resize: ]
)" + std::string("model: {preset: tiny, qkv_bias: false}\noptim: {name: sgd, lr: 3}\n"),
                                 {"transforms=[{name: resize, size: 32}, horizontal_flip]"});
  EXPECT_EQ(config.dir, "runs/x");
  EXPECT_EQ(config.seed, 1000000);
  EXPECT_EQ(config.micro_batch_size, 16);
  EXPECT_EQ(config.max_grad_norm, std::nullopt);
  ASSERT_TRUE(config.warmup.has_value());
  EXPECT_EQ(config.warmup->step, 5);
  EXPECT_EQ(config.weights.at("dice"), 2.0);
  EXPECT_THAT(config.tags, ElementsAre("x", "1"));
  ASSERT_EQ(config.steps.size(), 2u);
  EXPECT_EQ(config.steps[0].factor, 0.1);
  EXPECT_EQ(config.steps[1].step, 20);
  ASSERT_EQ(config.transforms.size(), 2u);
  EXPECT_EQ(config.transforms[0].get_if<ResizeConfig>()->size, 32);
  EXPECT_EQ(config.transforms[1].name(), "horizontal_flip");
  EXPECT_EQ(config.model.embed_dim, 192);
  EXPECT_FALSE(config.model.qkv_bias);
  ASSERT_NE(config.optim.get_if<SgdConfig>(), nullptr);
  EXPECT_EQ(config.optim.get_if<SgdConfig>()->lr, 3.0);
  EXPECT_EQ(config.optim.get_if<SgdConfig>()->momentum, 0.9);
}

TEST(ConfigTest, KeepsDefaultsOfWhatIsNotGiven) {
  const RunConfig config = parse("dir: x\n");
  RunConfig expected;
  expected.dir = "x";
  EXPECT_EQ(config, expected);
}

TEST(ConfigTest, ReportsEveryFaultAtOnceInOrderOfLines) {
  const std::string message = faults(R"(seed: many
model:
  embd_dim: 192
  qkv_bias: yes
  lr: 3
  global_pool: avgg
optim:
  name: adamw
  lr: fast
  betas: [0.9, 1.0]
  momentum: 0.9
)",
                                     {"model.drop_path_rate=1", "sed=3"});
  const std::string model_keys =
      "known keys: preset, embed_dim, num_heads, qkv_bias, global_pool, drop_path_rate";
  const std::vector<std::string> lines = {
      "recipe.yaml: dir: missing; expected a string: run folder",
      "recipe.yaml:1: seed: found 'many' (string), expected an integer",
      "recipe.yaml:3: model.embd_dim: unknown key; did you mean embed_dim? " + model_keys,
      "recipe.yaml:4: model.qkv_bias: found 'yes' (string), expected true or false",
      "recipe.yaml:5: model.lr: unknown key; did you mean optim.lr? " + model_keys,
      "recipe.yaml:6: model.global_pool: found 'avgg' (string), expected one of '', token, avg; "
      "did you mean avg?",
      "recipe.yaml:9: optim.lr: found 'fast' (string), expected a number >= 0",
      "recipe.yaml:10: optim.betas.1: found 1.0 (number), expected a number in [0, 1)",
      "recipe.yaml:11: optim.momentum: unknown key of optim.name=adamw; it belongs to "
      "optim.name=sgd; known keys: name, lr, betas",
      "command line: model.drop_path_rate=1: model.drop_path_rate: found 1 (integer), expected a "
      "number in [0, 1)",
      "command line: sed=3: sed: unknown key; did you mean seed? known keys: dir, seed, "
      "micro_batch_size, max_grad_norm, warmup, weights, tags, steps, transforms, model, optim"};
  std::string expected;
  for (const auto& line : lines) expected += (expected.empty() ? "" : "\n") + line;
  EXPECT_EQ(message, expected);
}

TEST(ConfigTest, ChecksAcrossFieldsCarryTheLineOfTheirKey) {
  EXPECT_EQ(faults("dir: x\nmodel:\n  num_heads: 7\n"),
            "recipe.yaml:3: model.num_heads: num_heads=7 does not divide embed_dim=768");
  EXPECT_EQ(faults("dir: x\nmodel:\n  embed_dim: 100\n"),
            "recipe.yaml:2: model.num_heads: num_heads=12 does not divide embed_dim=100");
  EXPECT_EQ(faults("dir: x\n", {"model.num_heads=7"}),
            "command line: model.num_heads=7: model.num_heads: num_heads=7 does not divide "
            "embed_dim=768");
  // An independent fault does not hide it; a value that could not be read is not judged by its
  // default.
  EXPECT_THAT(faults("seed: x\nmodel: {num_heads: 7}"), HasSubstr("does not divide"));
  EXPECT_THAT(faults("dir: x\nmodel: {num_heads: 7, embed_dim: wide}"),
              Not(HasSubstr("does not divide")));
  EXPECT_THAT(faults("dir: x\nmodel: {num_heads: 7, embd_dim: 70}"),
              Not(HasSubstr("does not divide")));
}

TEST(ConfigTest, OverridesReachListsMapsAndAlternatives) {
  const std::string recipe =
      "dir: x\ntransforms:\n  - horizontal_flip\n  - {name: resize, size: 8}\n";
  const RunConfig config = parse(
      recipe, {"transforms.0.p=0.25", "transforms.1.size=32", "weights.dice=2", "weights.bce=1",
               "optim.betas.0=0.8", "model.global_pool=", "micro_batch_size=auto", "optim.lr=2",
               "dir=a=b", "tags=[]", "warmup.step=3"});
  EXPECT_EQ(config.transforms[0].get_if<FlipConfig>()->p, 0.25);
  EXPECT_EQ(config.transforms[1].get_if<ResizeConfig>()->size, 32);
  EXPECT_EQ(config.weights.size(), 2u);
  EXPECT_THAT(config.optim.get_if<AdamWConfig>()->betas, ElementsAre(0.8, 0.999));
  EXPECT_EQ(config.optim.get_if<AdamWConfig>()->lr, 2.0);
  EXPECT_EQ(config.model.global_pool, "");
  EXPECT_EQ(config.micro_batch_size, std::nullopt);
  EXPECT_EQ(config.dir, "a=b");
  EXPECT_TRUE(config.tags.empty());
  EXPECT_EQ(config.warmup->step, 3);
  // The list that is there by default can be changed in place, too.
  EXPECT_EQ(parse("dir: x", {"transforms.1.size=16"}).transforms[1].get_if<ResizeConfig>()->size,
            16);
}

TEST(ConfigTest, SwitchingTheAlternativeDropsTheKeysOfTheOneBefore) {
  const std::string recipe = "dir: x\noptim:\n  lr: 1\n  betas: [0.9, 0.99]\n";
  const auto switched = parse(recipe, {"optim.name=sgd", "optim.momentum=0.5"});
  ASSERT_NE(switched.optim.get_if<SgdConfig>(), nullptr);
  EXPECT_EQ(switched.optim.get_if<SgdConfig>()->lr, 1) << "both know it";
  EXPECT_EQ(switched.optim.get_if<SgdConfig>()->momentum, 0.5);
  // In a list, too.
  EXPECT_NE(parse("dir: x\ntransforms: [{name: resize, size: 8}]", {"transforms.0.name="
                                                                    "horizontal_flip"})
                .transforms[0]
                .get_if<FlipConfig>(),
            nullptr);
  // Not those that neither knows, nor those that are given with the new one.
  EXPECT_EQ(faults(recipe + "  wheel: 1\n", {"optim.name=sgd"}),
            "recipe.yaml:5: optim.wheel: unknown key of optim.name=sgd; known keys: name, lr, "
            "momentum");
  EXPECT_THAT(faults(recipe, {"optim.name=sgd", "optim.betas=[0.9, 0.99]"}),
              HasSubstr("command line: optim.betas=[0.9, 0.99]: optim.betas: unknown key of "
                        "optim.name=sgd; it belongs to optim.name=adamw"));
  EXPECT_THAT(faults("dir: x\noptim: {name: sgd, betas: [0.9, 0.99]}"), HasSubstr("unknown key"));
  EXPECT_THAT(faults("dir: x", {"optim.name=sdg"}),
              HasSubstr("found 'sdg', expected one of adamw, sgd; did you mean sgd?"));
}

// What YAML would read as a comment, a map, an anchor or the end of a line belongs to a path.
TEST(ConfigTest, AnOverrideIsTakenToItsEnd) {
  for (const std::string value :
       {"/x/r #: x", "#2", "a: b", "- a", "&a", "*.png", "!a", "|", "> b", "@a", "`a`", "%a", "---",
        "a\nb", "? a", "a]", "a, b", "a # \"b\"", "c:\\d"}) {
    const auto config = parse("dir: x", {"dir=" + value});
    EXPECT_EQ(config.dir, value);
    EXPECT_EQ(parse(dump_config(config)).dir, value) << "as it is written into a run folder";
  }
  EXPECT_EQ(parse("dir: x", {"dir=  a b  "}).dir, "a b");
  EXPECT_EQ(parse("dir: x", {"max_grad_norm=~"}).max_grad_norm, std::nullopt);
  EXPECT_EQ(parse("dir: x", {"max_grad_norm= 1e-1 "}).max_grad_norm, 0.1);
  EXPECT_EQ(parse("dir: x", {"dir=\"a #b\\n\""}).dir, "a #b\n");
  EXPECT_THAT(parse("dir: x", {"tags=['a #b', \"c\"]"}).tags, ElementsAre("a #b", "c"));
  for (const std::string value : {"[a] # b", "[a] #]", "\"a\" # b", "'a' #'", "{} #"})
    EXPECT_THAT(faults("dir: x", {"tags=" + value}), HasSubstr("found a comment"));
  for (const std::string value : {"[a, # b\nc]", "\"a\nb\""})
    EXPECT_THAT(faults("dir: x", {"tags=" + value}), HasSubstr("found a line break"));
  for (const std::string value : {"[a] b", "\"a\" b", "'a'b", "\"a"})
    EXPECT_THAT(faults("dir: x", {"dir=" + value}), HasSubstr("command line: dir=")) << value;
}

TEST(ConfigTest, RefusesMalformedOverrides) {
  EXPECT_THAT(faults("dir: x", {"seed"}), HasSubstr("command line: seed: expected key=value"));
  EXPECT_THAT(faults("dir: x", {"=3"}), HasSubstr("expected key=value"));
  EXPECT_THAT(faults("dir: x", {"model..a=3"}), HasSubstr("expected names joined by dots"));
  EXPECT_THAT(faults("dir: x", {"optim.betas=[0.9"}), HasSubstr("bracket that is not closed"));
  EXPECT_THAT(faults("dir: x\ntags: [a]", {"tags.1=b"}),
              HasSubstr("index into a list of 1, expected 0 to 0"));
  EXPECT_THAT(faults("dir: x", {"tags.7=b"}), HasSubstr("write the whole list, tags=[...]"));
  EXPECT_THAT(faults("dir: x", {"seed=x", "nonsense", "optm.lr=1"}),
              testing::AllOf(HasSubstr("seed: found"), HasSubstr("nonsense"),
                             HasSubstr("did you mean optim?")));
}

struct SidesConfig {
  std::vector<int64_t> sides = {224};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("sides", self.sides, "sides", {.min = 1, .one_is_list = true});
  }
};

TEST(ConfigTest, TakesOneValueForAListWhereTheFieldSaysSo) {
  EXPECT_EQ(parse_config<SidesConfig>("sides: 28", "test").sides, (std::vector<int64_t>{28}));
  EXPECT_EQ(parse_config<SidesConfig>("sides: [28, 32]", "test").sides,
            (std::vector<int64_t>{28, 32}));
  EXPECT_EQ(config_keys<SidesConfig>()[0].type, "integer or list of integers");
  try {
    parse_config<SidesConfig>("sides: 0", "test");
    ADD_FAILURE() << "0 is out of range";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sides: found 0 (integer), expected an integer >= 1"));
  }
}

TEST(ConfigTest, RefusesWrongKinds) {
  EXPECT_THAT(faults("dir: [a]"), HasSubstr("dir: found a list of 1, expected a string"));
  EXPECT_THAT(faults("dir: x\nseed: \"3\""),
              HasSubstr("found \"3\" (quoted string), expected an integer"));
  EXPECT_THAT(faults("dir: x\nseed: 1.5"), HasSubstr("found 1.5 (number), expected an integer"));
  EXPECT_THAT(faults("dir: x\nseed: 99999999999999999999"), HasSubstr("expected an integer"));
  EXPECT_THAT(faults("dir: x\nseed: 1e300"), HasSubstr("expected an integer"));
  EXPECT_THAT(faults("dir: x\nseed: 0x10"), HasSubstr("expected an integer"));
  EXPECT_THAT(faults("dir: x\noptim: {lr: .nan}"), HasSubstr("expected a number"));
  EXPECT_THAT(faults("dir: x\noptim: {lr: 1e999}"), HasSubstr("expected a number"));
  EXPECT_THAT(faults("dir: x\nmodel: 3"), HasSubstr("found 3 (integer), expected a map of keys"));
  EXPECT_THAT(faults("dir: x\noptim: [1]"),
              HasSubstr("expected a map with `name`, one of adamw, sgd"));
  EXPECT_THAT(faults("dir: x\ntags: a"), HasSubstr("expected a list of strings"));
  EXPECT_THAT(faults("dir: x\nmicro_batch_size: 0"),
              HasSubstr("found 0 (integer), expected an integer or auto >= 1"));
  EXPECT_THAT(faults("dir: x\nmodel: {preset: tny}"),
              HasSubstr("expected one of tiny; did you mean tiny?"));
  EXPECT_THAT(faults("dir: x\ntransforms: [{p: 1}]"), HasSubstr("found a map without `name`"));
  EXPECT_THAT(faults("dir: x\ntransforms: [resize]"), HasSubstr("transforms.0.size: missing"));
  EXPECT_THAT(faults("- a"), HasSubstr("expected a map of keys"));
}

TEST(ConfigTest, RefusesWhatIsNotPlainYaml) {
  EXPECT_EQ(faults("dir: x\nseed: 1\nseed: 2"),
            "recipe.yaml:3: the key 'seed' comes twice in one map; keep one of them");
  EXPECT_THAT(faults("dir: &a x\nseed: 1"), HasSubstr("recipe.yaml:1: found the anchor &a"));
  EXPECT_THAT(faults("dir: x\nseed: !!int 1"), HasSubstr("recipe.yaml:2: found the tag"));
  EXPECT_THAT(faults("dir: x\n---\nseed: 1"), HasSubstr("second document"));
  EXPECT_THAT(faults("dir: x\nmodel:\n\tembed_dim: 3"), HasSubstr("recipe.yaml:3: found a tab"));
  EXPECT_THAT(faults("dir: x\nseed: [1"), HasSubstr("not valid YAML"));
  EXPECT_THAT(faults("dir: x\nseed: 1: 2"), HasSubstr("recipe.yaml:2: not valid YAML"));
  EXPECT_THAT(faults("dir: \xff"), HasSubstr("recipe.yaml:1: found bytes that are not UTF-8"));
  EXPECT_THAT(faults(std::string("dir: x\0y", 8)), HasSubstr("control character 0x00"));
  EXPECT_THAT(faults("dir: \"\\0\""), HasSubstr("NUL"));
  EXPECT_THAT(faults("? [a]\n: b"), HasSubstr("found a list or map as a key"));
  EXPECT_THAT(faults(std::string(2 << 20, ' ')), HasSubstr("bytes; expected a recipe of at most"));
}

TEST(ConfigTest, SurvivesDeepNesting) {
  constexpr size_t kDeep = 100'000;
  const auto repeat = [](const std::string& piece, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += piece;
    return text;
  };
  std::string block;
  for (size_t i = 0; i < 1000; ++i) block += std::string(i, ' ') + "a:\n";
  const std::string closed = repeat("[", kDeep) + repeat("]", kDeep);
  for (const auto& text : {repeat("- ", kDeep), block, closed, "dir: " + closed,
                           repeat("{a: ", kDeep) + "1" + repeat("}", kDeep)}) {
    EXPECT_THAT(faults(text), HasSubstr("nested deeper than 64 levels")) << text.substr(0, 20);
  }
  for (const auto& text : {repeat("[", kDeep), repeat("{a: ", kDeep), repeat("? ", kDeep)}) {
    EXPECT_THAT(faults(text), HasSubstr("as a key, or a bracket that is not closed"))
        << text.substr(0, 20);
  }
  EXPECT_THAT(faults("dir: x", {"tags=" + closed}), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(faults("dir: x", {repeat("a.", kDeep) + "a=1"}), HasSubstr("levels in the key"));
}

TEST(ConfigTest, RoundTripKeepsEveryValue) {
  RunConfig config = parse("dir: x\nmodel: {preset: tiny, qkv_bias: false}\noptim: sgd\n");
  config.dir = "1e3: \"quoted\"\n# not a comment \\ 'y' \xc3\xa9";
  config.micro_batch_size = 3;
  config.max_grad_norm = 1e30;  // the largest
  config.warmup = ScheduleStep{7, 0.1};
  config.weights = {{"a b", 1.0 / 3}, {"null", 1e-300}, {"", 5e22}};
  config.tags = {"true", "~",   "null",       "12",    "1_000", "0x1f",
                 "",     "- a", "2024-01-01", "plain", "a: b",  "no"};
  config.steps = {{1, 0.5}, {2, -0.25}};
  config.transforms = {{ResizeConfig{7}}, {FlipConfig{1}}};
  const std::string yaml = dump_config(config);
  const RunConfig again = parse(yaml);
  EXPECT_EQ(again, config);
  EXPECT_EQ(again.tags, config.tags);
  EXPECT_EQ(again.weights, config.weights);
  EXPECT_EQ(again.transforms[0].get_if<ResizeConfig>()->size, 7);
  EXPECT_EQ(dump_config(again), yaml);
}

TEST(ConfigTest, DumpFollowsTheFieldList) {
  RunConfig config;
  config.dir = "runs/x";
  config.steps = {{1, 0.5}};
  EXPECT_EQ(dump_config(config), R"(dir: runs/x
seed: 42
micro_batch_size: auto
max_grad_norm: 1
warmup: null
weights: {}
tags: [a, b]
steps:
  - step: 1
    factor: 0.5
transforms:
  - name: horizontal_flip
    p: 0.5
  - name: resize
    size: 224
model:
  preset: ""
  embed_dim: 768
  num_heads: 12
  qkv_bias: true
  global_pool: token
  drop_path_rate: 0
optim:
  name: adamw
  lr: 0.001
  betas: [0.9, 0.999]
)");
}

TEST(ConfigTest, DiffNamesWhatDiffers) {
  const RunConfig a = parse("dir: x");
  const RunConfig b = parse("dir: x", {"model.embed_dim=384", "optim.name=sgd"});
  std::vector<std::string> lines;
  for (const auto& d : config_diff(a, b)) {
    lines.push_back(d.key + " " + d.a.value_or("-") + " " + d.b.value_or("-"));
  }
  EXPECT_THAT(lines,
              ElementsAre("model.embed_dim 768 384", "optim.name adamw sgd", "optim.lr 0.001 0.1",
                          "optim.betas [0.9, 0.999] -", "optim.momentum - 0.9"));
  EXPECT_TRUE(config_diff(a, a).empty());
}

TEST(ConfigTest, KeysListAlternativesWithTheirCondition) {
  const auto keys = config_keys<RunConfig>();
  std::vector<std::string> lines;
  for (const auto& key : keys) lines.push_back(key.key + "|" + key.type + "|" + key.alternative);
  EXPECT_THAT(
      lines,
      ElementsAre(
          "dir|string|", "seed|integer|", "micro_batch_size|integer or auto|",
          "max_grad_norm|number or null|", "warmup|section or null|", "warmup.step|integer|",
          "warmup.factor|number|", "weights|map of names to numbers|", "tags|list of strings|",
          "steps|list of sections|", "steps.*.step|integer|", "steps.*.factor|number|",
          "transforms|list of alternatives|", "transforms.*.name|string|",
          "transforms.*.p|number|transforms.*.name=horizontal_flip",
          "transforms.*.size|integer|transforms.*.name=resize", "model.preset|string|",
          "model.embed_dim|integer|", "model.num_heads|integer|", "model.qkv_bias|boolean|",
          "model.global_pool|string|", "model.drop_path_rate|number|", "optim.name|string|",
          "optim.lr|number|optim.name=adamw", "optim.betas|list of numbers|optim.name=adamw",
          "optim.lr|number|optim.name=sgd", "optim.momentum|number|optim.name=sgd"));
  EXPECT_EQ(keys[2].default_value, "auto");
  EXPECT_EQ(keys[2].range, ">= 1");
  EXPECT_EQ(keys[2].unit, "samples");
  EXPECT_TRUE(keys[0].required);
  EXPECT_THAT(keys[16].choices, ElementsAre("tiny"));
}

TEST(ConfigTest, SchemaDescribesEveryKey) {
  const auto schema = config_schema<RunConfig>();
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["required"], nlohmann::ordered_json({"dir"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  const auto& properties = schema["properties"];
  EXPECT_EQ(properties["seed"]["type"], "integer");
  EXPECT_EQ(properties["seed"]["default"], 42);
  EXPECT_EQ(properties["micro_batch_size"]["anyOf"][0]["minimum"], 1);
  EXPECT_EQ(properties["micro_batch_size"]["anyOf"][2]["const"], "auto");
  EXPECT_EQ(properties["model"]["properties"]["drop_path_rate"]["exclusiveMaximum"], 1);
  EXPECT_EQ(properties["model"]["properties"]["preset"]["enum"],
            nlohmann::ordered_json({"", "tiny"}));
  EXPECT_EQ(properties["optim"]["oneOf"].size(), 3u);
  EXPECT_EQ(properties["optim"]["oneOf"][1]["properties"]["name"]["const"], "sgd");
  EXPECT_EQ(properties["optim"]["oneOf"][2]["enum"], nlohmann::ordered_json({"adamw", "sgd"}));
  EXPECT_EQ(properties["transforms"]["items"]["oneOf"][1]["required"],
            nlohmann::ordered_json({"name", "size"}));
}

TEST(ConfigTest, LoadsAFileAndNamesAMissingOne) {
  const support::TempDir folder;
  const auto path = folder.file("fovea_config_test.yaml");
  std::ofstream(path) << "dir: x\nsed: 1\n";
  try {
    load_config<RunConfig>(path);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("fovea_config_test.yaml:2: sed: unknown key"));
  }
  std::filesystem::remove(path);
  try {
    load_config<RunConfig>(path);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot open the file (No such file"));
  }
}

TEST(ConfigTest, ManyFaultsAreCut) {
  std::string yaml = "dir: x\n";
  for (int i = 0; i < 20'000; ++i) yaml += "key" + std::to_string(i) + ": 1\n";
  EXPECT_THAT(faults(yaml), HasSubstr("and 19900 more faults"));
}

}  // namespace
}  // namespace fovea
