// What explain shows of every model: each token's attention where the token was taken from.
#include "fovea/inference/explained_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/config/config.h"
#include "fovea/data/tiles/tiled.h"
#include "tests/support/close.h"
#include "tests/train/model_cases.h"

namespace fovea::train {
namespace {

class ExplainedAttentionTest : public ::testing::TestWithParam<testing::ModelCase> {
 protected:
  ExplainedAttentionTest() : config_(GetParam().config(folder_)) {
    const auto recipe = folder_.file("recipe.yaml");
    std::ofstream(recipe) << dump_config(config_);
    ::testing::internal::CaptureStderr();  // that the weights are those of step 0
    inference_ = load_inference(recipe, {.device = "cpu"});
    ::testing::internal::GetCapturedStderr();
  }

  std::shared_ptr<const data::Dataset> samples() const {
    const auto whole = data::open_loader_setup(config_.data, *config_.data.val, inference_.input,
                                               /*is_training=*/false);
    return whole.dataset;
  }

  testing::Folder folder_;
  TrainConfig config_;
  Inference inference_;
};

// Each leaf of the tree has its own token's value in all of its pixels.
void expect_on_leaves(const inference::TokenLayout& layout, const data::PatchTree& tree) {
  const auto length = layout.grid.at(0);
  const auto image = layout.to_image(at::arange(1, length + 1, at::kFloat));
  ASSERT_FALSE(tree.leaves.empty());
  for (size_t i = 0; i < tree.leaves.size(); ++i) {
    const auto& box = tree.leaves[i];
    auto region = image.narrow(-2, box.y, box.height).narrow(-1, box.x, box.width);
    if (image.dim() == 3) region = region.narrow(0, box.z, box.depth);
    support::expect_close(region, at::ones(region.sizes()) * static_cast<double>(i + 1), at::kFloat,
                          "a leaf");
  }
}

TEST_P(ExplainedAttentionTest, IsThatOfEachTokenInItsPlace) {
  const auto prepared = inference_.prepare(samples(), 0, 1);
  auto batch = prepared.tensors;
  if (inference_.model->takes_packed()) batch.images = inference_.preprocess(samples(), 0, 1);
  const auto explained = inference::explained_attention(inference_, batch, /*noise_level=*/0.5);
  ASSERT_FALSE(explained.blocks.empty());
  const auto& layout = explained.layout;
  const auto tokens = layout.num_prefix + c10::multiply_integers(layout.grid);
  for (const auto& block : explained.blocks) {
    EXPECT_EQ(block.size(3), tokens);  // of a masked autoencoder too: nothing is masked
    support::expect_close(block.sum(-1), at::ones(block.sizes().slice(0, 3)), at::kFloat, "rows");
  }
  const bool is_window = !explained.window.empty();
  if (inference_.model->takes_patches() && !is_window) expect_on_leaves(layout, batch.trees[0]);
  const auto seen = explained.seen.defined() ? explained.seen : batch.images;
  if (is_window) {
    for (size_t side = 0; side < explained.window.size(); ++side) {
      const auto axis = static_cast<int64_t>(side) + 2;
      EXPECT_EQ(explained.window[side], (batch.images.size(axis) - seen.size(axis)) / 2);
    }
  }
  const auto image = (seen[0].to(at::kFloat) + 3) / 6;
  const auto pictures = explain(image, explained.blocks, layout, 16);
  EXPECT_EQ(pictures.rollout.size(0), 3);
  EXPECT_EQ(pictures.heads.size(0), 3);
}

std::vector<testing::ModelCase> explained_cases() { return testing::model_cases(); }

INSTANTIATE_TEST_SUITE_P(EveryModel, ExplainedAttentionTest, ::testing::ValuesIn(explained_cases()),
                         [](const auto& model_case) { return model_case.param.name; });

}  // namespace
}  // namespace fovea::train
