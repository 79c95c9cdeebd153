#include "fovea/weights/conversion.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/models/encoder_model.h"
#include "fovea/models/mae.h"
#include "fovea/models/vit.h"
#include "fovea/models/weights.h"
#include "fovea/weights/read_weights.h"
#include "tests/support/close.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using ::testing::AllOf;
using testing::by_name;
using testing::expected;
using testing::foreign_file;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::TempDir;
using testing::tiny_vit;

struct ForeignCase {
  std::string file, naming, group;
  models::VitConfig config;
  models::LoadOptions options = {};
};

models::VitConfig dinov2_vit(double mlp_ratio, int64_t registers) {
  auto config = tiny_vit();
  config.num_classes = 0;
  config.init_values = 1.0;
  config.reg_tokens = registers;
  config.no_embed_class = registers > 0;
  config.mlp_ratio = mlp_ratio;
  if (mlp_ratio == 6) {
    config.mlp_layer = "swiglu_packed";
    config.act_layer = "silu";
  }
  return config;
}

std::vector<ForeignCase> foreign_cases() {
  auto hf = tiny_vit();
  hf.norm_eps = 1e-12;
  auto pooled = hf;
  pooled.num_classes = 0;
  pooled.representation_size = 16;
  auto siglip = tiny_vit();
  siglip.num_classes = 0;
  siglip.class_token = false;
  siglip.global_pool = "map";
  auto encoder = tiny_vit();
  encoder.num_classes = 0;
  auto hf_encoder = encoder;
  hf_encoder.norm_eps = 1e-12;
  return {{"hf_vit.safetensors", "hf_vit", "hf_vit", hf},
          {"hf_vit_model.bin", "hf_vit", "hf_vit_model", pooled},
          {"dcp", "hf_vit", "hf_vit_model", pooled},
          {"hf_dinov2.safetensors", "hf_dinov2", "hf_dinov2", dinov2_vit(6, 0)},
          {"hf_dinov2_registers.safetensors", "hf_dinov2", "hf_dinov2_registers", dinov2_vit(2, 3)},
          {"dinov2_registers.pth", "dinov2", "dinov2_registers", dinov2_vit(6, 2)},
          {"dinov2_training.pth", "dinov2", "dinov2_training", dinov2_vit(2, 0)},
          {"google_augreg.npz", "google", "google_augreg", tiny_vit()},
          {"google_siglip.npz", "google", "google_siglip", siglip},
          {"mae.pth", "mae", "mae", encoder, {.part = models::WeightsPart::kEncoder}},
          {"hf_mae.bin", "hf_mae", "hf_mae", hf_encoder, {.part = models::WeightsPart::kEncoder}},
          {"ucf_vit.ckpt", "ucf", "ucf_vit", tiny_vit()},
          {"timm.pth.tar", "timm", "timm", tiny_vit()}};
}

// A file may hold several sets of weights, and a run has to be told which one it got.
TEST(ConversionTest, ALoadNamesWhatOfTheFileItDidNotTake) {
  models::Vit model(tiny_vit());
  model.init_weights(1);
  const auto file = foreign_file("timm.pth.tar");
  const auto plain = models::load_weights(model, file);
  EXPECT_FALSE(plain.is_plain());
  EXPECT_THAT(plain.left_out, ::testing::Contains(HasSubstr("state_dict_ema.")));
  EXPECT_THAT(plain.text(), HasSubstr("note: the tensors under \"state_dict\""));
  const auto before = model.named_parameters()["norm.weight"].clone();
  const auto average = models::load_weights(model, file, {}, {.key = "state_dict_ema"});
  EXPECT_THAT(average.left_out, ::testing::Not(::testing::Contains(HasSubstr("state_dict_ema."))));
  EXPECT_FALSE(at::equal(model.named_parameters()["norm.weight"], before));
}

TEST(ConversionTest, RefusesTwoTensorsOfOneName) {
  auto tensors = read_weights_file(foreign_file("hf_vit.safetensors")).tensors;
  tensors.emplace_back("norm.weight", tensors.front().second);  // what a name of the table becomes
  const TempDir folder;
  nn::write_tensor_file(folder.file("two.safetensors"), tensors, {});
  EXPECT_THAT(refusal_of([&] { read_weights(folder.file("two.safetensors")); }),
              HasSubstr("two of its tensors are norm.weight"));
}

TEST(ConversionTest, RefusesAKeyOfAFileWithoutKeys) {
  for (const auto* name : {"hf_vit.safetensors", "google_augreg.npz"}) {
    EXPECT_THAT(refusal_of([&] { read_weights(foreign_file(name), {.key = "state_dict_ema"}); }),
                HasSubstr("has no keys"));
  }
}

// The other system's model and ours give the same, so every tensor went where it belongs: all are
// random, in the maker.
TEST(ConversionTest, ModelsComputeWhatTheirOwnSystemsCompute) {
  const at::NoGradGuard no_grad;
  int compared = 0;
  for (const auto& item : foreign_cases()) {
    models::Vit model(item.config);
    model.init_weights(1);
    const auto report = models::load_weights(model, foreign_file(item.file), item.options);
    model.eval();
    EXPECT_EQ(report.loaded.size(), model.named_parameters().size()) << item.file;
    const auto golden = expected().group(item.group);
    support::NamedTensors results;
    if (golden.contains("logits")) results["logits"] = model.forward(expected().at("images"));
    if (golden.contains("features"))
      results["features"] = model.forward_features(expected().at("images"));
    ASSERT_FALSE(results.empty()) << item.file;
    for (const auto& [name, result] : results) {
      support::expect_close(result, golden.at(name), at::kFloat, item.file + " " + name);
      ++compared;
    }
  }
  std::cout << "  " << compared << " results of other systems\n";
  EXPECT_EQ(compared, 14);
}

// What the test above must see: one mistake in one block.
TEST(ConversionTest, OneMistakeShows) {
  const at::NoGradGuard no_grad;
  const auto logits = [](const std::string& wrong, auto mistake) {
    auto tensors = read_weights(foreign_file("hf_vit.safetensors")).tensors;
    for (auto& item : tensors) {
      if (item.first == wrong) item.second = mistake(item.second);
    }
    auto config = tiny_vit();
    config.norm_eps = 1e-12;
    models::Vit model(config);
    model.init_weights(1);
    models::load_weights(model, tensors, "hf_vit");
    model.eval();
    const support::NamedTensors found = {{"logits", model.forward(expected().at("images"))}};
    const support::NamedTensors wanted = {{"logits", expected().at("hf_vit/logits")}};
    return support::compare(found, wanted, at::kFloat);
  };
  const auto swap = [](const at::Tensor& qkv) {
    const auto parts = qkv.chunk(3, 0);
    return at::cat({parts[1], parts[0], parts[2]}, 0);
  };
  const auto transpose = [](const at::Tensor& square) { return square.t(); };
  const auto same = [](const at::Tensor& tensor) { return tensor; };
  EXPECT_TRUE(logits("", same).is_equal());
  EXPECT_FALSE(logits("blocks.1.attn.qkv.weight", swap).is_equal());
  EXPECT_FALSE(logits("blocks.0.attn.qkv.bias", swap).is_equal());
  EXPECT_FALSE(logits("blocks.0.attn.proj.weight", transpose).is_equal());
  EXPECT_FALSE(logits("blocks.1.attn.proj.weight", transpose).is_equal());
}

// A model around an encoder: parameters are "encoder.blocks.0 ...".
class EncoderAlone : public models::EncoderModel {
 public:
  explicit EncoderAlone(const models::EncoderConfig& config) : EncoderModel(config, at::kCPU) {
    nn::assign_names(*this);
  }
  std::string_view recipe_name() const override { return "encoder_alone"; }
  at::Tensor forward(const models::ModelInput& images) const override {
    return run([&] { return encoder().forward_features(images); });
  }

 protected:
  nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const override {
    return nn::vit_init(name, shape, {});
  }
  std::vector<std::string> own_no_weight_decay() const override { return {}; }
};

// Names with and without "encoder.", into models with and without it.
TEST(ConversionTest, EncodersFitModelsAroundAnEncoder) {
  const at::NoGradGuard no_grad;
  models::EncoderConfig config;
  config.vit = tiny_vit();
  for (const auto* name : {"mae", "timm"}) {
    EncoderAlone around(config);
    models::Vit alone(tiny_vit());
    const auto file = foreign_file(std::string(name) == "mae" ? "mae.pth" : "timm.pth.tar");
    for (models::Model* model :
         {static_cast<models::Model*>(&around), static_cast<models::Model*>(&alone)}) {
      model->init_weights(1);
      models::load_weights(*model, file, {.part = models::WeightsPart::kEncoder});
      model->eval();
    }
    const auto images = expected().at("images");
    support::expect_same_bits(around.forward(images), alone.forward_features(images), name);
    if (std::string(name) == "mae") {
      support::expect_close(around.forward(images), expected().at("mae/features"), at::kFloat,
                            name);
    }
    EXPECT_THAT(refusal_of([&] { models::load_weights(around, file); }), HasSubstr("unexpected"));
  }
}

// Encoder and decoder, from two of four patches.
TEST(ConversionTest, MaskedAutoencodersPredictWhatTheirOwnSystemsPredict) {
  const at::NoGradGuard no_grad;
  for (const auto* name : {"mae", "hf_mae"}) {
    const bool is_original = std::string(name) == "mae";
    models::MaeConfig config;
    config.encoder.vit = models::EncoderConfig::headless(tiny_vit());
    config.encoder.vit.norm_eps = config.decoder_norm_eps = is_original ? 1e-6 : 1e-12;
    config.decoder_embed_dim = 8;
    config.decoder_depth = 1;
    config.decoder_num_heads = 2;
    config.decoder_mlp_ratio = is_original ? 2 : 3;
    models::Mae model(config);
    model.init_weights(1);
    const auto report =
        models::load_weights(model, foreign_file(is_original ? "mae.pth" : "hf_mae.bin"));
    EXPECT_EQ(report.loaded.size(), model.named_parameters().size()) << report.text();
    model.eval();
    const auto golden = expected().group(name);
    const auto predictions =
        model.predict(expected().at("images"), {golden.at("ids_keep").to(at::kLong)});
    support::expect_close(predictions, golden.at("predictions"), at::kFloat, name);
  }
}

// Where timm reads the file itself: each tensor, under timm's name, bit for bit.
TEST(ConversionTest, TensorsAreThoseThatTimmReads) {
  for (const auto* name :
       {"dinov2_registers.pth", "google_augreg.npz", "google_siglip.npz", "timm.pth.tar"}) {
    const auto group = std::string(name).substr(0, std::string(name).find('.'));
    auto tensors = by_name(read_weights(foreign_file(name)).tensors);
    for (auto& item : tensors) item.second = item.second.to(at::kFloat);
    const auto golden = expected().group(group + "/weights");
    EXPECT_PARITY(tensors, golden, at::kFloat);
  }
}

TEST(ConversionTest, FindsTheNamingByTheNames) {
  for (const auto& item : foreign_cases()) {
    EXPECT_EQ(read_weights(foreign_file(item.file)).naming, item.naming) << item.file;
  }
  EXPECT_EQ(find_naming({{"own.weight", at::Tensor()}}), nullptr);
  EXPECT_THAT(refusal_of([] { naming_named("keras"); }), HasSubstr("expected one of hf_mae"));
}

// From the file to Fovea and back: the names and bits of the file.
TEST(ConversionTest, GoesBackExactly) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"hf_vit.safetensors", "hf_vit"},
      {"hf_dinov2.safetensors", "hf_dinov2"},
      {"mae.pth", "mae"},
      {"../moving/bionemo", "bionemo"},
      {"../moving/te.pt", "te"},
      {"timm.pth.tar", "timm"}};
  for (const auto& [file, naming] : cases) {
    const auto source = read_weights_file(foreign_file(file)).tensors;
    auto original = by_name(source);
    auto there = to_fovea(naming_named(naming), source, 2);
    EXPECT_TRUE(there.report.is_complete()) << there.report.text();
    const auto back = by_name(from_fovea(naming_named(naming), there.tensors, 2).tensors);
    // DINOv2's mask token is not kept: zeros come back.
    original.erase("embeddings.mask_token");
    // TransformerEngine's FP8 scales are left out.
    std::erase_if(original, [](const auto& item) { return item.first.ends_with("_extra_state"); });
    ASSERT_GT(original.size(), 25U) << file;
    for (const auto& [name, tensor] : original) {
      ASSERT_TRUE(back.contains(name)) << file << " " << name;
      support::expect_same_bits(back.at(name).contiguous(), tensor, name);
    }
    EXPECT_EQ(back.size(), original.size() + (naming == "hf_dinov2" ? 1 : 0)) << file;
  }
}

// With registers the class token's position is a part of the class token: the same function, in
// other numbers.
TEST(ConversionTest, RegistersGoBackToTheSameFunction) {
  const at::NoGradGuard no_grad;
  for (const auto& [file, naming] : std::vector<std::pair<std::string, std::string>>{
           {"dinov2_registers.pth", "dinov2"}, {"hf_dinov2_registers.safetensors", "hf_dinov2"}}) {
    const auto source = read_weights_file(foreign_file(file)).tensors;
    const auto there = to_fovea(naming_named(naming), source);
    const auto back = from_fovea(naming_named(naming), there.tensors).tensors;
    ASSERT_EQ(back.size(), source.size());
    for (const auto& [name, tensor] : source) {
      ASSERT_TRUE(by_name(back).contains(name)) << name;
      EXPECT_EQ(by_name(back).at(name).sizes(), tensor.sizes()) << name;
    }
    const auto again = to_fovea(naming_named(naming), back);
    for (const auto& [name, tensor] : there.tensors)
      support::expect_same_bits(by_name(again.tensors).at(name), tensor, name);
  }
}

// The layout is not in the weights: a model says it.
TEST(ConversionTest, TransformerEngineNeedsTheNumberOfHeads) {
  const auto file = foreign_file("../moving/te.pt");
  EXPECT_THAT(refusal_of([&] { read_weights(file); }),
              AllOf(HasSubstr("layernorm_qkv"), HasSubstr("head by head"), HasSubstr("--model")));
  EXPECT_THAT(refusal_of([&] { read_weights(file, {.num_heads = 3}); }), HasSubstr("of 3 heads"));
  const auto weights = read_weights(file, {.num_heads = 2});
  EXPECT_EQ(weights.naming, "te");
  EXPECT_THAT(weights.report.notes, ::testing::Contains(HasSubstr("gelu_tanh")));
  EXPECT_EQ(weights.report.left_out.size(), 2U);  // _extra_state of each block
  // Row by row: head h, of queries, keys or values c, feature k.
  const auto there =
      by_name(read_weights_file(file).tensors).at("blocks.1.self_attention.layernorm_qkv.weight");
  const auto here = by_name(weights.tensors).at("blocks.1.attn.qkv.weight");
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t k = 0; k < 4; ++k)
        EXPECT_TRUE(at::equal(here[(c * 2 + h) * 4 + k], there[(h * 3 + c) * 4 + k]));
    }
  }
}

TEST(ConversionTest, NamesWhatDoesNotFit) {
  auto source = read_weights_file(foreign_file("hf_vit.safetensors")).tensors;
  source.emplace_back("vit.encoder.layer.0.adapter.weight", at::Tensor());
  std::erase_if(source, [](const auto& item) {
    return item.first == "vit.encoder.layer.1.attention.attention.key.bias";
  });
  const auto report = to_fovea(naming_named("hf_vit"), source).report;
  EXPECT_FALSE(report.is_complete());
  EXPECT_THAT(report.unexpected, ::testing::ElementsAre("vit.encoder.layer.0.adapter.weight"));
  EXPECT_THAT(report.missing,
              ::testing::ElementsAre("vit.encoder.layer.1.attention.attention.key.bias"));
  EXPECT_THAT(report.text(), AllOf(HasSubstr("vit.embeddings.cls_token -> cls_token"),
                                   HasSubstr("missing        1"), HasSubstr("unexpected     1")));
  EXPECT_THAT(refusal_of([] { from_fovea(naming_named("google"), {}); }),
              HasSubstr("is read, not written"));
}

TEST(ConversionTest, RefusesShapesThatNoRuleFits) {
  auto source = read_weights_file(foreign_file("google_augreg.npz")).tensors;
  for (auto& item : source) {
    if (item.first.ends_with("embedding/kernel")) item.second = item.second.flatten(0, 2);
  }
  EXPECT_THAT(refusal_of([&] { to_fovea(naming_named("google"), source); }),
              HasSubstr("expected [patch, patch, channels, outputs]"));
}

// Two names of one parameter are an error, not a choice.
TEST(ConversionTest, RefusesTwoTensorsForOneParameter) {
  nn::NamedTensors twice = {{"vit.layernorm.weight", expected().at("images")},
                            {"deit.layernorm.weight", expected().at("images")}};
  EXPECT_THAT(refusal_of([&] { to_fovea(naming_named("hf_vit"), twice); }),
              HasSubstr("would both become norm.weight"));
}

}  // namespace
}  // namespace fovea::weights
