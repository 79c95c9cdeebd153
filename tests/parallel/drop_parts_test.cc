// Units whose tokens are shared out draw the masks of one process, or none.
#include "fovea/parallel/drop_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "fovea/parallel/model_parallel.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

class DroppingImpl : public nn::UnitImpl {
 public:
  at::Tensor forward(const at::Tensor& x) const {
    return run([this](const at::Tensor& tokens) { return dropout(tokens, 0.5, "drop"); }, x);
  }
};

// A region of one unit.
class RegionImpl : public nn::UnitImpl {
 public:
  explicit RegionImpl(bool is_declared) {
    unit = register_module("unit", std::make_shared<DroppingImpl>());
    if (is_declared) unit->declare_drop("drop", nn::DropOf::kTokens);
    nn::assign_names(*this);
  }
  at::Tensor forward(const at::Tensor& x) const {
    const nn::StepScope step(3, 1, at::arange(x.size(0)));
    return unit->forward(x);
  }
  std::shared_ptr<DroppingImpl> unit;
};

Partitioning region() { return {.rules = {}, .regions = {{.units = {"unit"}}}, .units = {}}; }

TEST(DropPartsTest, TokensOfTwoRanksDropAsThoseOfOne) {
  testing::run_ranks(2, [](World& world) {
    const DeviceMesh mesh(world, {{1, 1, 2, 1}});
    const auto x = at::ones({2, 5, 8});
    const auto alone = std::make_shared<RegionImpl>(true);
    const auto shared = std::make_shared<RegionImpl>(true);
    const ModelParallel parallel(*shared, region(), mesh, /*sequence_parallel=*/false);
    EXPECT_TRUE(shared->forward(x).equal(alone->forward(x)));
  });
}

TEST(DropPartsTest, ALayerThatIsNotDeclaredIsRefusedInARegion) {
  testing::run_ranks(2, [](World& world) {
    const DeviceMesh mesh(world, {{1, 1, 2, 1}});
    const auto x = at::ones({2, 5, 8});
    const auto model = std::make_shared<RegionImpl>(false);
    EXPECT_NO_THROW(model->forward(x));
    const ModelParallel parallel(*model, region(), mesh, /*sequence_parallel=*/false);
    try {
      model->forward(x);
      ADD_FAILURE() << "drew a mask";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("drop layer unit.drop is not declared"),
                std::string::npos)
          << error.what();
    }
    model->eval();
    EXPECT_TRUE(model->forward(x).equal(x));
  });
}

}  // namespace
}  // namespace fovea::parallel
