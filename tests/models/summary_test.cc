#include "fovea/models/summary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/models/diffusion_vit.h"
#include "fovea/models/registry.h"
#include "fovea/models/unetr.h"
#include "fovea/models/vit.h"

namespace fovea::models {
namespace {

ModelSummary summary_of(const std::string& preset) {
  return summarize(*build_named(preset, at::kMeta));
}

const LayerSummary& layer(const ModelSummary& summary, const std::string& path) {
  for (const auto& one : summary.layers) {
    if (one.path == path) return one;
  }
  throw std::out_of_range(path);
}

struct Figure {
  const char* preset;
  double parameters;  // millions
  double gmacs;
};

class PublishedFigures : public testing::TestWithParam<Figure> {};

// timm 1.0, results/model_metadata-in1k.csv and the tables of its releases: two decimals.
TEST_P(PublishedFigures, AreTimms) {
  const auto [preset, parameters, gmacs] = GetParam();
  const auto summary = summary_of(preset);
  EXPECT_NEAR(static_cast<double>(summary.num_parameters) / 1e6, parameters, 0.0051) << preset;
  EXPECT_NEAR(summary.gmacs(), gmacs, 0.0051) << preset;
}

INSTANTIATE_TEST_SUITE_P(SummaryTest, PublishedFigures,
                         testing::Values(Figure{"vit_tiny_patch16_224", 5.72, 1.26},
                                         Figure{"vit_small_patch16_224", 22.05, 4.61},
                                         Figure{"vit_base_patch16_224", 86.57, 17.58},
                                         Figure{"vit_large_patch16_224", 304.33, 61.60}));

VitConfig tiny() {
  VitConfig config;
  config.img_size = {8};
  config.patch_size = {4};
  config.in_chans = 1;
  config.num_classes = 3;
  config.embed_dim = 16;
  config.depth = 2;
  config.num_heads = 2;
  return config;
}

TEST(SummaryTest, CountsATinyModelByHand) {
  const auto model = std::make_shared<Vit>(tiny(), at::kMeta);
  const auto summary = summarize(*model);
  // N = 5 tokens, D = 16, 4 patches of 16 pixels.
  const int64_t attention = 2 * (5 * 16 * 48 + 5 * 16 * 16 + 2 * 5 * 5 * 16);
  const int64_t mlp = 2 * (2 * 5 * 16 * 64);
  EXPECT_EQ(layer(summary, "patch_embed").product_flops, 2 * 4 * 16 * 16);
  EXPECT_EQ(layer(summary, "blocks.1.attn").product_flops, attention);
  EXPECT_EQ(layer(summary, "blocks.1.mlp").product_flops, mlp);
  EXPECT_EQ(layer(summary, "blocks").product_flops, 2 * (attention + mlp));
  EXPECT_EQ(layer(summary, "head").product_flops, 2 * 16 * 3);
  EXPECT_EQ(summary.product_flops, 2 * 4 * 16 * 16 + 2 * (attention + mlp) + 2 * 16 * 3);
  EXPECT_EQ(summary.norm_flops, 5 * 5 * 5 * 16);
  EXPECT_EQ(layer(summary, "blocks.1.attn.qkv").output_shape, (std::vector<int64_t>{1, 5, 48}));
  EXPECT_EQ(layer(summary, "head").output_shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(layer(summary, "cls_token").kind, "parameter");
  EXPECT_EQ(layer(summary, "blocks.0.attn").kind, "Attention");
  EXPECT_EQ(layer(summary, "blocks.0.attn").depth(), 3);
}

TEST(SummaryTest, PartsAddUpAndMetaEqualsCpu) {
  auto config = tiny();
  config.init_values = 0.1;
  config.global_pool = "map";
  config.class_token = false;
  config.qk_norm = true;
  const auto meta = std::make_shared<Vit>(config, at::kMeta);
  const auto cpu = std::make_shared<Vit>(config);
  cpu->init_weights(0);
  const auto a = summarize(*meta), b = summarize(*cpu);
  EXPECT_EQ(a.product_flops, b.product_flops);
  EXPECT_EQ(a.norm_flops, b.norm_flops);
  EXPECT_EQ(a.num_parameters, b.num_parameters);
  int64_t parameters = 0, flops = 0;
  for (const auto& one : a.layers) {
    if (one.depth() != 1) continue;
    parameters += one.num_parameters;
    flops += one.product_flops;
  }
  EXPECT_EQ(parameters, a.num_parameters);
  EXPECT_EQ(flops, a.product_flops);
  // kv of 4 tokens, q and proj of one, two products with one query, an MLP.
  EXPECT_EQ(layer(a, "attn_pool").product_flops,
            2 * (4 * 16 * 32 + 2 * 16 * 16 + 2 * 4 * 16 + 2 * 16 * 64));
}

// config: of a Model. What libtorch's meta device lacks is there while a summary is made.
template <class Model, class Config>
void expect_meta_equals_cpu(Config config) {
  config.encoder.vit.img_size = {16, 16, 16};
  config.encoder.vit.patch_size = {4};
  config.encoder.vit.embed_dim = 24;
  config.encoder.vit.depth = 4;
  config.encoder.vit.num_heads = 2;
  const auto meta = std::make_shared<Model>(config, at::kMeta);
  const auto cpu = std::make_shared<Model>(config, at::kCPU);
  cpu->init_weights(0);
  const auto a = summarize(*meta), b = summarize(*cpu);
  EXPECT_GT(a.product_flops, 0);
  EXPECT_EQ(a.product_flops, b.product_flops);
  EXPECT_EQ(a.num_parameters, b.num_parameters);
  EXPECT_EQ(a.layers.size(), b.layers.size());
}

TEST(SummaryTest, ConvolutionsOnMetaEqualThoseOnCpu) {
  expect_meta_equals_cpu<Unetr>(UnetrConfig());
}

TEST(SummaryTest, ADiffusionVitOnMetaEqualsOneOnCpu) {
  expect_meta_equals_cpu<DiffusionVit>(DiffusionVitConfig());
}

TEST(SummaryTest, TakesVolumesAndOtherSizes) {
  auto config = tiny();
  config.img_size = {8, 8, 8};
  config.patch_size = {4, 4, 4};
  const auto volume = std::make_shared<Vit>(config, at::kMeta);
  EXPECT_EQ(layer(summarize(*volume), "patch_embed").product_flops, 2 * 8 * 64 * 16);
  config = tiny();
  config.dynamic_img_size = true;
  const auto model = std::make_shared<Vit>(config, at::kMeta);
  const auto summary = summarize(*model, {16, 8});
  EXPECT_EQ(summary.input_shape, (std::vector<int64_t>{1, 1, 16, 8}));
  EXPECT_EQ(layer(summary, "patch_embed").output_shape, (std::vector<int64_t>{1, 8, 16}));
}

TEST(SummaryTest, EstimatesMemory) {
  const auto model = std::make_shared<Vit>(tiny(), at::kMeta);
  const auto summary = summarize(*model);
  const auto one = training_memory(summary, {.batch_size = 1});
  const auto eight = training_memory(summary, {.batch_size = 8, .has_average = true});
  EXPECT_EQ(one.weights, 4 * summary.num_parameters);
  EXPECT_EQ(one.optimizer, 8 * summary.num_parameters);
  EXPECT_EQ(one.average, 0);
  EXPECT_EQ(eight.average, 4 * summary.num_parameters);
  EXPECT_EQ(eight.activations, 8 * one.activations);
  // Of each block 8 D + F of N tokens (F = 4 D), of the patches D, of norm D, of the head 3.
  EXPECT_EQ(summary.saved_activations, 2 * 5 * (8 * 16 + 64) + 4 * 16 + 5 * 16 + 3);
  EXPECT_EQ(summary.attention_rows, 2 * 5 * 2);
  const auto inference = inference_memory(summary, {.batch_size = 1});
  EXPECT_EQ(inference.gradients + inference.optimizer, 0);
  EXPECT_LT(inference.activations, one.activations);
}

TEST(SummaryTest, CountsWhatIsTrained) {
  const auto model = std::make_shared<Vit>(tiny(), at::kMeta);
  for (auto& item : model->named_parameters()) {
    item.value().set_requires_grad(item.key().starts_with("head."));
  }
  const auto summary = summarize(*model);
  EXPECT_EQ(summary.num_trainable, 16 * 3 + 3);
  EXPECT_EQ(training_memory(summary, {}).gradients, 4 * (16 * 3 + 3));
}

}  // namespace
}  // namespace fovea::models
