// The ViT on images of mixed sizes in one sequence, against a plain one on each image by itself.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/vit.h"
#include "fovea/models/vit_partitioning.h"
#include "fovea/nn/forward_context.h"
#include "fovea/parallel/partitioning_check.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPackedPatch = 4;

const std::string kTinyPacked =
    "img_size: [12, 16]\npatch_size: 4\nin_chans: 2\nembed_dim: 16\ndepth: 2\nnum_heads: 2\n"
    "num_classes: 3\n";

// The same weights whatever `patching` is, none of them where it starts.
std::shared_ptr<Vit> packed_test_vit(const std::string& options) {
  auto vit = std::make_shared<Vit>(parse_config<VitConfig>(kTinyPacked + options, "test"));
  vit->init_weights(1);
  vit->to(at::kDouble);
  const at::NoGradGuard no_grad;
  uint64_t seed = 0;
  for (auto& parameter : vit->parameters()) {
    parameter.add_(support::random(parameter.sizes().vec(), at::kDouble, ++seed), 0.1);
  }
  vit->eval();
  return vit;
}

std::shared_ptr<Vit> packed_vit(const std::string& options) {
  return packed_test_vit(options + "patching: packed\n");
}

// What the packed one is held against: images of any size, one at a time.
std::shared_ptr<Vit> plain_vit(const std::string& options) {
  return packed_test_vit(options + "dynamic_img_size: true\n");
}

// Some of equal sizes, one of the size of the position table, one of a single patch.
std::vector<at::Tensor> mixed_images() {
  std::vector<at::Tensor> images;
  for (const auto& [rows, columns] :
       std::vector<std::array<int64_t, 2>>{{2, 3}, {3, 4}, {1, 1}, {5, 2}, {2, 3}, {1, 6}}) {
    images.push_back(support::random({1, 2, rows * kPackedPatch, columns * kPackedPatch},
                                     at::kDouble, 10 + images.size()));
  }
  return images;
}

PackedImages pack_of(const std::vector<at::Tensor>& images) {
  PackedImages all;
  std::vector<at::Tensor> patches;
  for (const auto& image : images) {
    const auto one = pack_images(image, kPackedPatch);
    patches.push_back(one.patches);
    all.grids.insert(all.grids.end(), one.grids.begin(), one.grids.end());
  }
  all.patches = at::cat(patches, 1);
  return all;
}

support::NamedTensors packed_gradients(Vit& vit) {
  support::NamedTensors gradients;
  for (const auto& item : vit.named_parameters()) {
    if (item.value().requires_grad()) gradients[item.key()] = item.value().grad();
  }
  return gradients;
}

// Logits and the gradients of their products with fixed numbers, in training or evaluation. Row i
// of the global batch is image i's.
void expect_as_each_alone(const std::string& options, bool is_training) {
  const auto images = mixed_images();
  const auto count = static_cast<int64_t>(images.size());
  const auto direction = support::random({count, 3}, at::kDouble, 5);
  const auto rows = at::arange(count) + 7;

  auto together = packed_vit(options), alone = plain_vit(options);
  together->train(is_training);
  alone->train(is_training);
  at::Tensor logits;
  {
    const nn::StepScope step(3, 11, rows);
    logits = together->forward(pack_of(images));
    (logits * direction).sum().backward();
  }
  std::vector<at::Tensor> expected;
  for (int64_t i = 0; i < count; ++i) {
    const nn::StepScope step(3, 11, rows.narrow(0, i, 1));
    expected.push_back(alone->forward(images[static_cast<size_t>(i)]));
    (expected.back() * direction.narrow(0, i, 1)).sum().backward();
  }
  support::expect_close(logits, at::cat(expected), at::kDouble, "logits");
  EXPECT_PARITY(packed_gradients(*together), packed_gradients(*alone), at::kDouble);
}

struct PackedCase {
  const char* name;
  const char* options;
};

void PrintTo(const PackedCase& test, std::ostream* out) { *out << test.name; }

class PackedVitTest : public ::testing::TestWithParam<PackedCase> {};

TEST_P(PackedVitTest, GivesWhatEachImageGivesAlone) {
  expect_as_each_alone(GetParam().options, /*is_training=*/false);
}

TEST_P(PackedVitTest, DrawsInTrainingWhatEachImageDrawsAlone) {
  expect_as_each_alone(std::string(GetParam().options) +
                           "drop_rate: 0.2\npos_drop_rate: 0.2\npatch_drop_rate: 0.4\n"
                           "proj_drop_rate: 0.2\nattn_drop_rate: 0.2\ndrop_path_rate: 0.4\n",
                       /*is_training=*/true);
}

INSTANTIATE_TEST_SUITE_P(
    Options, PackedVitTest,
    ::testing::Values(
        PackedCase{"ClassToken", ""}, PackedCase{"Registers", "reg_tokens: 3\n"},
        PackedCase{"Average", "global_pool: avg\nclass_token: false\n"},
        PackedCase{"AverageWithPrefix", "global_pool: avg\npool_include_prefix: true\n"},
        PackedCase{"Maximum", "global_pool: max\n"},
        PackedCase{"AverageAndMaximum", "global_pool: avgmax\n"},
        PackedCase{"Map", "global_pool: map\nclass_token: false\n"},
        PackedCase{"Distilled", "distilled: true\n"},
        PackedCase{"Factorized", "pos_embed: factorized\n"},
        PackedCase{"SinCos", "pos_embed: sincos\nno_embed_class: true\n"},
        PackedCase{"NoPosition", "pos_embed: none\n"},
        PackedCase{"Interpolations", "pos_embed_interp: bilinear\n"},
        PackedCase{"Norms", "qk_norm: true\nscale_attn_norm: true\npre_norm: true\n"},
        PackedCase{"LayerScale", "init_values: 0.5\nnorm_layer: rms_norm\nmlp_layer: swiglu\n"},
        PackedCase{"PreLogits", "representation_size: 8\nlogits_scale: 0.5\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PackedVitModelTest, PooledFeaturesAreWhatTheHeadStandsOn) {
  for (const std::string options : {"", "global_pool: avg\n", "global_pool: map\n"}) {
    auto vit = packed_vit(options);
    const auto images = pack_of(mixed_images());
    support::expect_close(vit->classify(vit->pooled_features(images)), vit->forward(images),
                          at::kDouble, options);
  }
}

TEST(PackedVitModelTest, TakesImagesOfOneSizeToo) {
  auto vit = packed_vit("");
  for (const auto& image : mixed_images()) {
    const auto twice = at::cat({image, -image});
    support::expect_close(vit->forward(twice), vit->forward(pack_images(twice, kPackedPatch)),
                          at::kDouble, "logits");
  }
}

TEST(PackedVitModelTest, NeighboursDoNotMatter) {
  auto images = mixed_images();
  auto vit = packed_vit("global_pool: map\n");
  vit->to(at::kFloat);
  const auto logits_of = [&] {
    auto all = pack_of(images);
    all.patches = all.patches.to(at::kFloat);
    return vit->forward(all);
  };
  const auto before = logits_of();
  images[1] = images[1] * 3 + 1;
  const auto after = logits_of();
  for (int64_t i = 0; i < before.size(0); ++i) {
    if (i == 1) {
      EXPECT_FALSE(after[i].equal(before[i]));
    } else {
      support::expect_same_bits(after[i], before[i], std::to_string(i));
    }
  }
}

TEST(PackedVitModelTest, IsCloseInBfloat16) {
  auto vit = packed_vit("");
  auto images = pack_of(mixed_images());
  const auto expected = vit->forward(images);
  vit->to(at::kFloat);
  images.patches = images.patches.to(at::kBFloat16);
  // Rounding adds up over two blocks.
  support::expect_close(vit->forward(images).to(at::kDouble) / 4, expected / 4, at::kBFloat16,
                        "logits");
}

TEST(PackedVitModelTest, FactorizedPositionsAreTablesOfRowsAndColumns) {
  const auto vit = packed_vit("pos_embed: factorized\n");
  const auto parameters = vit->named_parameters();
  EXPECT_EQ(parameters["pos_embed_y"].sizes(), (at::IntArrayRef{1, 3, 16}));
  EXPECT_EQ(parameters["pos_embed_x"].sizes(), (at::IntArrayRef{1, 4, 16}));
  EXPECT_THAT(vit->no_weight_decay(),
              ::testing::IsSupersetOf({std::string("pos_embed_y"), std::string("pos_embed_x")}));
  EXPECT_EQ(vit->layer_id("pos_embed_x"), 0);
  const auto saved = support::random({1, 7, 16}, at::kDouble, 1);
  EXPECT_EQ(vit->adapt_parameter("pos_embed_y", saved).sizes(), (at::IntArrayRef{1, 3, 16}));
  EXPECT_EQ(vit->adapt_parameter("pos_embed_x", saved).sizes(), (at::IntArrayRef{1, 4, 16}));
}

TEST(PackedVitModelTest, RefusesOtherPacks) {
  auto vit = packed_vit("");
  const auto good = pack_of(mixed_images());
  EXPECT_NO_THROW(vit->forward(good));
  auto images = good;
  images.grids.pop_back();
  EXPECT_THROW(vit->forward(images), Error);
  images = good;
  images.patches = images.patches.narrow(2, 0, 16);
  EXPECT_THROW(vit->forward(images), Error);
  images = good;
  images.grids.push_back({0, 3});
  EXPECT_THROW(vit->forward(images), Error);
  EXPECT_THROW(vit->forward(PackedImages{}), Error);
  EXPECT_THROW(plain_vit("")->forward(good), ConfigError);
  EXPECT_THROW(plain_vit("")->pooled_features(good), ConfigError);
}

std::string faults_of_packed(const std::string& yaml) {
  try {
    parse_config<VitConfig>("patching: packed\n" + yaml, "test");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(PackedVitModelTest, RefusesWhatNeedsOneSize) {
  EXPECT_EQ(faults_of_packed(""), "no fault");
  EXPECT_THAT(faults_of_packed("global_pool: ''"), HasSubstr("token, avg, avgmax, max or map"));
  EXPECT_THAT(faults_of_packed("patch_size: [8, 16]"), HasSubstr("square patches"));
  EXPECT_THAT(faults_of_packed("img_size: [32, 32, 32]"), HasSubstr("square patches"));
  EXPECT_THAT(faults_of_packed("crop_to_patches: true"), HasSubstr("resize_to_patches"));
  EXPECT_THAT(faults_of_packed("drop_path_skip: true"), HasSubstr("expected false"));
  EXPECT_THAT(faults_of_packed("pos_embed: size_and_center"), HasSubstr("patching: adaptive"));
  EXPECT_THAT(faults_of_packed("variables: [a, b]\nin_chans: 2"),
              HasSubstr("one patch embedding for all channels"));
  EXPECT_THROW(parse_config<VitConfig>("img_size: [32, 32, 32]\npos_embed: factorized", "test"),
               ConfigError);
  EXPECT_THROW(parse_config<VitConfig>("patching: adaptive\npos_embed: factorized", "test"),
               ConfigError);
  EXPECT_THROW(parse_config<MaeConfig>("encoder: {patching: packed}", "test"), ConfigError);
}

TEST(PackedVitModelTest, TokensAreNotSharedOut) {
  const auto partitioning =
      partitioning_of(parse_config<VitConfig>(kTinyPacked + "patching: packed\n", "test"));
  const auto issues_with = [&](const parallel::ParallelConfig& config) {
    ConfigIssues issues;
    parallel::check_partitioning(partitioning, config, issues);
    return issues.all();
  };
  parallel::ParallelConfig config;
  config.tp = 2;
  EXPECT_TRUE(issues_with(config).empty());
  config.sequence_parallel = true;
  ASSERT_EQ(issues_with(config).size(), 1U);
  EXPECT_EQ(issues_with(config)[0].key, "parallel.sequence_parallel");
  config = {};
  config.cp = 2;
  ASSERT_EQ(issues_with(config).size(), 1U);
  EXPECT_EQ(issues_with(config)[0].key, "parallel.cp");
}

}  // namespace
}  // namespace fovea::models
