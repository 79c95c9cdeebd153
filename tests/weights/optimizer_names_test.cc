#include "fovea/weights/optimizer_names.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

// Two embeddings, two layers of a weight and a bias, and a norm.
std::vector<ForeignParameter> six_parameters() {
  std::vector<ForeignParameter> list;
  for (const auto& [name, sizes] :
       std::vector<std::pair<std::string, std::vector<int64_t>>>{{"cls_token", {1, 1, 4}},
                                                                 {"pos_embed", {1, 3, 4}},
                                                                 {"blocks.0.weight", {4, 4}},
                                                                 {"blocks.0.bias", {4}},
                                                                 {"blocks.1.weight", {4, 4}},
                                                                 {"norm.weight", {4}}})
    list.push_back({name, name, sizes});
  return list;
}

ParameterRules six_rules() {
  return {
      .is_trained = [](const std::string&) { return true; },
      .has_no_weight_decay =
          [](const std::string& name) { return name == "cls_token" || name == "pos_embed"; },
      .layer_id =
          [](const std::string& name) {
            return name.starts_with("blocks.") ? name[7] - '0' + 1 : name == "norm.weight" ? 2 : 0;
          }};
}

struct GroupOf {
  double weight_decay = 0;
  std::vector<std::string> parameters;
  double lr_scale = 1;
};

// The state that torch would write for these groups, numbered as torch does.
OptimizerState state_of(const std::vector<GroupOf>& groups) {
  std::map<std::string, std::vector<int64_t>> sizes;
  for (const auto& parameter : six_parameters()) sizes[parameter.name] = parameter.sizes;
  OptimizerState state;
  int index = 0;
  for (const auto& [weight_decay, parameters, lr_scale] : groups) {
    auto& group = state.groups.emplace_back();
    group.settings = {{"weight_decay", weight_decay}, {"lr_scale", lr_scale}};
    for (const auto& name : parameters) {
      group.params.push_back(std::to_string(index));
      state.slots["exp_avg"][std::to_string(index++)] = at::ones(sizes.at(name));
    }
  }
  return state;
}

void expect_names(const std::vector<GroupOf>& groups, const ParameterRules& rules = six_rules()) {
  const auto names = parameter_names(state_of(groups), six_parameters(), rules, "run.pth");
  int index = 0;
  for (const auto& group : groups) {
    for (const auto& name : group.parameters)
      EXPECT_EQ(names.at(std::to_string(index++)), name) << "way of " << groups.size();
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(index));
}

TEST(OptimizerNamesTest, FindsTheWayThatGroupsWereMade) {
  const std::string cls = "cls_token", pos = "pos_embed", norm = "norm.weight",
                    w0 = "blocks.0.weight", b0 = "blocks.0.bias", w1 = "blocks.1.weight";
  expect_names({{0.1, {cls, pos, w0, b0, w1, norm}}});
  expect_names({{0, {cls, pos, b0, norm}}, {0.1, {w0, w1}}});
  expect_names({{0, {b0, norm}}, {0.1, {cls, pos, w0, w1}}});
  expect_names({{0.1, {cls, pos, w0, w1}}, {0, {b0, norm}}});
  expect_names({{0.1, {w0, w1}}, {0, {cls, pos, b0, norm}}});
  expect_names({{0, {cls, pos}, 0.25}, {0.1, {w0}, 0.5}, {0, {b0}, 0.5}, {0.1, {w1}}, {0, {norm}}});
  expect_names({{0.1, {cls, w0, b0, w1, norm}}, {0, {pos}}});  // UCF-VIT
  auto frozen = six_rules();
  frozen.is_trained = [](const std::string& name) { return name != "pos_embed"; };
  expect_names({{0, {b0, norm}}, {0.1, {cls, w0, w1}}}, frozen);
}

// Without a model, by the names alone.
TEST(OptimizerNamesTest, RulesOfNames) {
  const auto rules =
      rules_of_names({"cls_token", "blocks.0.attn.qkv.weight", "blocks.11.norm1.bias"});
  EXPECT_TRUE(rules.has_no_weight_decay("pos_embed"));
  EXPECT_TRUE(rules.has_no_weight_decay("encoder.cls_token"));
  EXPECT_FALSE(rules.has_no_weight_decay("blocks.0.attn.qkv.weight"));
  EXPECT_EQ(rules.layer_id("patch_embed.proj.weight"), 0);
  EXPECT_EQ(rules.layer_id("blocks.11.norm1.bias"), 12);
  EXPECT_EQ(rules.layer_id("norm.weight"), 12);
  EXPECT_EQ(rules.layer_id("head.weight"), 13);
}

TEST(OptimizerNamesTest, TakesTheNamesThatTorchWasTold) {
  auto state = state_of({{0, {"norm.weight", "cls_token"}}});
  state.groups[0].names = {"norm.weight", "cls_token"};
  const auto names = parameter_names(state, six_parameters(), six_rules(), "run.pth");
  EXPECT_EQ(names.at("0"), "norm.weight");
  EXPECT_EQ(names.at("1"), "cls_token");
}

// Never a guess: another order, another number, another decay or scale is an error that lists what
// was tried.
TEST(OptimizerNamesTest, RefusesWhatCannotBeDecided) {
  const auto fault = [](const std::vector<GroupOf>& groups) {
    return refusal_of(
        [&] { parameter_names(state_of(groups), six_parameters(), six_rules(), "run.pth"); });
  };
  const std::string cls = "cls_token", pos = "pos_embed", norm = "norm.weight",
                    w0 = "blocks.0.weight", b0 = "blocks.0.bias", w1 = "blocks.1.weight";
  EXPECT_THAT(fault({{0.1, {pos, cls, w0, b0, w1, norm}}}),
              HasSubstr("one group of all parameters: cls_token [1, 1, 4] would have moments "
                        "[1, 3, 4]"));
  EXPECT_THAT(fault({{0.1, {cls, pos, w0, b0, w1}}}), HasSubstr("in groups of 5, and which"));
  EXPECT_THAT(fault({{0.1, {cls, pos, b0, norm}}, {0, {w0, w1}}}),
              HasSubstr("group 0 has weight_decay 0.1"));
  EXPECT_THAT(
      fault({{0, {cls, pos}, 0.5}, {0.1, {w0}, 0.25}, {0, {b0}, 0.25}, {0.1, {w1}}, {0, {norm}}}),
      HasSubstr("groups 0 and 1, of layers 0 and 1, have lr_scale 0.5 and 0.25"));
  EXPECT_THAT(fault({{0, {w0, w1}}, {0, {b0}}, {0, {cls, pos, norm}}}), HasSubstr("2 + 1 + 3"));
}

// Two ways fit, and give two shapes that are alike different names.
TEST(OptimizerNamesTest, RefusesTwoAnswers) {
  std::vector<ForeignParameter> parameters;
  for (const auto* name : {"a.weight", "a.bias", "b.bias", "b.weight"})
    parameters.push_back({name, name, {4}});
  OptimizerState state;
  state.groups.resize(2);
  for (int i = 0; i < 4; ++i) {
    state.groups[i / 2].params.push_back(std::to_string(i));
    state.slots["exp_avg"][std::to_string(i)] = at::ones({4});
  }
  auto rules = six_rules();
  // By layer: {a.weight, b.weight}, {a.bias, b.bias}. Trained alone: the other way round.
  rules.layer_id = [](const std::string& name) { return name.ends_with("bias") ? 1 : 0; };
  const auto names = parameter_names(state, parameters, rules, "run.pth");
  EXPECT_EQ(names.at("1"), "b.weight");
  parameters[0].sizes = parameters[3].sizes = {2, 2};
  for (auto& item : state.slots["exp_avg"]) item.second = at::ones({2, 2});
  for (auto& parameter : parameters) parameter.sizes = {2, 2};
  // All have two dims: weight decay tells biases from weights, in either order.
  EXPECT_THAT(refusal_of([&] { parameter_names(state, parameters, rules, "run.pth"); }),
              HasSubstr("without weight decay, then with: would fit"));
}

}  // namespace
}  // namespace fovea::weights
