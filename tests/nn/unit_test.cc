#include "fovea/nn/unit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {
namespace {

class LeafImpl : public UnitImpl {
 public:
  at::Tensor forward(const at::Tensor& x) const {
    return run([&] {
      order.push_back("body");
      record("half", x / 2);
      if (is_recording(path() + ".costly")) record("costly", x * 3);
      return x + 1;
    });
  }
  mutable std::vector<std::string> order;
};

class RootImpl : public UnitImpl {
 public:
  RootImpl() {
    leaf = register_module("leaf", std::make_shared<LeafImpl>());
    const auto list = register_module("list", std::make_shared<torch::nn::Module>());
    nested = list->register_module("0", std::make_shared<LeafImpl>());
    assign_names(*this);
  }
  at::Tensor forward(const at::Tensor& x) const {
    return run([&] { return nested->forward(leaf->forward(x)); });
  }
  std::shared_ptr<LeafImpl> leaf, nested;
};

std::vector<std::string> names(const RecordScope& scope) {
  std::vector<std::string> result;
  for (const auto& item : scope.intermediates()) result.push_back(item.first);
  return result;
}

TEST(UnitTest, KnowsItsPath) {
  const RootImpl root;
  EXPECT_EQ(root.path(), "");
  EXPECT_EQ(root.leaf->path(), "leaf");
  EXPECT_EQ(root.nested->path(), "list.0");
}

TEST(UnitTest, CallsBackAroundTheBody) {
  LeafImpl leaf;
  leaf.before_forward.emplace_back([&](const UnitImpl&) { leaf.order.emplace_back("before"); });
  leaf.after_forward.emplace_back([&](const UnitImpl&) { leaf.order.emplace_back("after"); });
  leaf.forward(at::ones({1}));
  EXPECT_EQ(leaf.order, (std::vector<std::string>{"before", "body", "after"}));
}

TEST(UnitTest, RecordsInOrderUnderFullNames) {
  RootImpl root;
  const RecordScope scope;
  root.forward(at::ones({1}));
  EXPECT_EQ(names(scope), (std::vector<std::string>{"leaf.half", "leaf", "list.0.half", "list.0"}));
  EXPECT_EQ(scope.intermediates()[3].second.item<float>(), 3);
}

TEST(UnitTest, RecordsOnlyWhatIsWantedAndCostlyThingsByNameAlone) {
  RootImpl root;
  const RecordScope scope({"list.0", "leaf.costly"});
  root.forward(at::ones({1}));
  EXPECT_EQ(names(scope), (std::vector<std::string>{"leaf.costly", "list.0"}));
}

TEST(UnitTest, TheInnerRecorderIsInForce) {
  RootImpl root;
  const RecordScope outer;
  {
    const RecordScope inner({"leaf"});
    root.forward(at::ones({1}));
    EXPECT_EQ(inner.intermediates().size(), 1U);
  }
  EXPECT_TRUE(outer.intermediates().empty());
}

TEST(UnitTest, DropKeysNameTheLayerAndTheStep) {
  const RootImpl root;
  const auto rows = at::arange(3);
  const StepScope scope(/*seed=*/9, /*step=*/4, rows);
  const auto key = root.nested->drop_key("proj_drop");
  EXPECT_EQ(key.key, philox_key(9, "list.0.proj_drop"));
  EXPECT_EQ(key.step, 4U);
  EXPECT_TRUE(key.rows.is_same(rows));
}

TEST(UnitTest, WhereItSeesPartsOnlyDeclaredDropLayersDraw) {
  LeafImpl leaf;
  const StepScope scope(1, 0, at::arange(2));
  EXPECT_TRUE(leaf.drop_key("drop").parts.empty());
  leaf.declare_drop("drop", DropOf::kTokens);
  EXPECT_EQ(leaf.drops().at("drop"), DropOf::kTokens);
  leaf.drop_parts.emplace()["drop"] = {{.dim = 1, .index = 1, .count = 2}};
  EXPECT_EQ(leaf.drop_key("drop").parts.size(), 1U);
  EXPECT_THROW(leaf.drop_key("other"), Error);
  EXPECT_TRUE(leaf.sample_drop_key("other").parts.empty());
}

TEST(UnitTest, DropsOnlyInTrainingAndOnlyInsideAStep) {
  LeafImpl leaf;
  const auto x = at::ones({2, 64});
  EXPECT_THROW(leaf.dropout(x, 0.5, "drop"), Error);
  EXPECT_TRUE(leaf.dropout(x, 0.0, "drop").is_same(x));
  {
    const StepScope scope(1, 0, at::arange(2));
    EXPECT_FALSE(leaf.dropout(x, 0.5, "drop").equal(x));
    EXPECT_FALSE(leaf.drop_path_mask(x, 0.9, "path").equal(at::ones({x.size(0)})));
  }
  leaf.eval();
  EXPECT_TRUE(leaf.dropout(x, 0.5, "drop").is_same(x));
  EXPECT_FALSE(leaf.drop_path_mask(x, 0.5, "path").defined());
}

}  // namespace
}  // namespace fovea::nn
