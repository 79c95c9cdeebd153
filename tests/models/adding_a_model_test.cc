// docs/adding_a_model.md, followed: its model compiles, learns and passes what every model must.
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea/core/config_fields.h"
#include "fovea/models/model.h"
#include "fovea/nn/init.h"
#include "fovea/nn/mlp.h"
#include "fovea/nn/patch_embed.h"
#include "tests/support/close.h"

namespace fovea::models {

struct BagOfPatchesConfig {
  static constexpr std::string_view kName = "bag_of_patches";
  int64_t img_size = 28;
  int64_t patch_size = 7;
  int64_t in_chans = 1;
  int64_t num_classes = 10;
  int64_t embed_dim = 64;
  int64_t depth = 2;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("img_size", self.img_size, "side of the images", {.min = 1, .unit = "pixels"});
    v.field("patch_size", self.patch_size, "side of a patch", {.min = 1, .unit = "pixels"});
    v.field("in_chans", self.in_chans, "channels of the images", {.min = 1});
    v.field("num_classes", self.num_classes, "outputs of the head", {.min = 1});
    v.field("embed_dim", self.embed_dim, "token width D", {.min = 1});
    v.field("depth", self.depth, "number of blocks", {.min = 1});
  }

  void validate(ConfigIssues& issues) const {
    if (img_size % patch_size == 0) return;
    issues.add("patch_size", fmt::format("{} does not divide img_size {}; choose one that does",
                                         patch_size, img_size));
  }
};

// B batch, C channels, N patches, D embed_dim. A vision transformer without attention: each patch
// votes on its own.
class BagOfPatches : public Model {
 public:
  explicit BagOfPatches(const BagOfPatchesConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return BagOfPatchesConfig::kName; }
  at::Tensor forward(const at::Tensor& images) override;  // [B, C, H, W] -> [B, num_classes]
  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  InputSpec input_spec() const override;
  std::vector<std::string> no_weight_decay() const override { return {}; }
  int64_t layer_id(const std::string& parameter_name) const override;
  int64_t num_layers() const override { return config_.depth + 2; }

 private:
  BagOfPatchesConfig config_;
  nn::PatchEmbed patch_embed_ = nullptr;
  std::vector<nn::Mlp> blocks_;
  nn::Norm norm_ = nullptr;
  nn::Linear head_ = nullptr;
};

BagOfPatches::BagOfPatches(const BagOfPatchesConfig& config, at::Device device) : config_(config) {
  const int64_t dim = config.embed_dim;
  patch_embed_ = register_module(
      "patch_embed",
      nn::PatchEmbed(nn::PatchEmbedOptions{.patch_size = {config.patch_size, config.patch_size},
                                           .in_chans = config.in_chans,
                                           .dim = dim},
                     device));
  const auto list = register_module("blocks", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < config.depth; ++i) {
    const nn::MlpOptions options{.dim = dim, .hidden_dim = 4 * dim};
    blocks_.push_back(list->register_module(std::to_string(i), nn::Mlp(options, device)));
  }
  norm_ = register_module("norm", nn::Norm(dim, nn::NormOptions{}, device));
  head_ = register_module("head", nn::Linear(dim, config.num_classes, /*has_bias=*/true, device));
  nn::assign_names(*this);
}

at::Tensor BagOfPatches::forward(const at::Tensor& images) {
  auto x = patch_embed_->forward(images);                 // [B, N, D]
  for (auto& block : blocks_) x = x + block->forward(x);  // [B, N, D]
  return head_->forward(norm_->forward(x).mean(1));       // [B, num_classes]
}

void BagOfPatches::init_parameter(const std::string& name, const at::Tensor& value,
                                  uint64_t seed) const {
  const nn::VitInitOptions options{.patch_elements =
                                       config_.in_chans * config_.patch_size * config_.patch_size};
  nn::initialize(value, name, seed, nn::vit_init(name, value.sizes(), options));
}

InputSpec BagOfPatches::input_spec() const {
  return {.in_chans = config_.in_chans,
          .img_size = {config_.img_size, config_.img_size},
          .mean = std::vector<double>(config_.in_chans, 0.5),
          .std = std::vector<double>(config_.in_chans, 0.5)};
}

int64_t BagOfPatches::layer_id(const std::string& parameter_name) const {
  if (parameter_name.starts_with("patch_embed.")) return 0;
  if (parameter_name.starts_with("blocks.")) return std::stoll(parameter_name.substr(7)) + 1;
  return config_.depth + 1;
}

namespace {

TEST(AddingAModelTest, MapsImagesToLogits) {
  BagOfPatches model({});
  model.init_weights(1);
  const auto logits = model.forward(support::random({3, 1, 28, 28}, at::kFloat, 1));
  EXPECT_EQ(logits.sizes(), (at::IntArrayRef{3, 10}));
}

TEST(AddingAModelTest, StepZeroWeightsAreAFunctionOfTheSeed) {
  BagOfPatches first({}), same({}), other({});
  first.init_weights(1);
  same.init_weights(1);
  other.init_weights(2);
  const auto weight = [](BagOfPatches& model) { return model.named_parameters()["head.weight"]; };
  support::expect_same_bits(weight(first), weight(same), "head.weight");
  EXPECT_FALSE(weight(first).equal(weight(other)));
}

TEST(AddingAModelTest, GivesEveryParameterAGradientAndALayer) {
  BagOfPatches model({});
  model.init_weights(1);
  model.forward(support::random({3, 1, 28, 28}, at::kFloat, 1)).square().sum().backward();
  int64_t count = 0;
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    EXPECT_LT(model.layer_id(item.key()), model.num_layers()) << item.key();
    ++count;
  }
  EXPECT_EQ(count, 2 + 2 * 4 + 2 + 2);
}

TEST(AddingAModelTest, LearnsAFixedBatch) {
  BagOfPatches model({});
  model.init_weights(1);
  const auto images = support::random({10, 1, 28, 28}, at::kFloat, 1);
  const auto labels = at::arange(10);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 25; ++step) {
    const auto loss = at::cross_entropy_loss(model.forward(images), labels);
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
    model.zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.sub_(parameter.grad() * 0.5);
  }
  EXPECT_LT(last, 0.5 * first);
}

}  // namespace
}  // namespace fovea::models
