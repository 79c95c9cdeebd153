#include "fovea/optim/param_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "fovea/core/error.h"
#include "fovea/models/vit.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::optim {
namespace {

nlohmann::json load_groups() {
  return nlohmann::json::parse(std::ifstream(support::golden_path("param_groups.json")));
}

TEST(ParamGroupsTest, ScalesAndDecaysAreTimms) {
  const auto document = load_groups();
  models::Vit model(support::config_from_json<models::VitConfig>(document.at("vit")));
  const auto frozen = document.at("frozen").get<std::set<std::string>>();
  NamedParams params;
  for (auto& item : model.named_parameters()) {
    if (frozen.contains(item.key())) item.value().set_requires_grad(false);
    params.emplace_back(item.key(), item.value());
  }
  for (const auto& expected : document.at("cases")) {
    ParamGroupOptions options{.weight_decay = expected.at("weight_decay"),
                              .layer_decay = expected.at("layer_decay"),
                              .layer_decay_min_scale = expected.at("min_scale"),
                              .no_weight_decay = expected.at("no_weight_decay"),
                              .layer_id = {}};
    options.layer_id = [&](const std::string& name) { return model.layer_id(name); };
    const auto specs = param_groups(params, options);
    const auto& groups = expected.at("groups");
    ASSERT_EQ(specs.size(), groups.size());
    for (const auto& spec : specs) {
      ASSERT_TRUE(groups.contains(spec.name)) << spec.name;
      EXPECT_DOUBLE_EQ(spec.lr_scale, groups.at(spec.name).at(0)) << spec.name;
      EXPECT_DOUBLE_EQ(spec.weight_decay, groups.at(spec.name).at(1)) << spec.name;
    }
    std::cout << "  " << specs.size() << " parameters compared\n";
  }
}

TEST(ParamGroupsTest, EverythingDecaysWhereThatIsAskedFor) {
  models::Vit model(support::config_from_json<models::VitConfig>(load_groups().at("vit")));
  AdamWConfig adamw;
  adamw.weight_decay = 0.25;
  const auto spared = [&] {
    const auto specs = param_groups(model, OptimConfig{adamw});
    EXPECT_EQ(specs.size(), model.named_parameters().size());
    return std::count_if(specs.begin(), specs.end(),
                         [](const ParamSpec& spec) { return spec.weight_decay != 0.25; });
  };
  EXPECT_GT(spared(), 0);
  adamw.decay_all = true;
  EXPECT_EQ(spared(), 0);
}

TEST(ParamGroupsTest, AModelSaysWhatItsLayersAre) {
  models::Vit model(support::config_from_json<models::VitConfig>(load_groups().at("vit")));
  AdamWConfig adamw;
  adamw.layer_decay = 0.5;
  const auto specs = param_groups(model, OptimConfig{adamw});
  ASSERT_EQ(specs.size(), model.named_parameters().size());
  for (const auto& spec : specs) {
    if (spec.name == "cls_token") {
      EXPECT_DOUBLE_EQ(spec.lr_scale, 0.125);  // two blocks and the head above it
      EXPECT_EQ(spec.weight_decay, 0);
    }
    if (spec.name == "head.weight") {
      EXPECT_EQ(spec.lr_scale, 1);
      EXPECT_EQ(spec.weight_decay, adamw.weight_decay);
    }
  }
}

TEST(ParamGroupsTest, LayerDecayNeedsLayers) {
  EXPECT_THROW(param_groups(NamedParams{},
                            [] {
                              ParamGroupOptions options;
                              options.layer_decay = 0.5;
                              return options;
                            }()),
               Error);
}

}  // namespace
}  // namespace fovea::optim
