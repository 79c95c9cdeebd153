#include "fovea/models/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fovea/core/error.h"
#include "fovea/models/vit.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace fovea::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// As tools/golden/make_vit_weights.py.
VitConfig timm_config() {
  VitConfig config;
  config.img_size = {32};
  config.patch_size = {8};
  config.num_classes = 5;
  config.embed_dim = 16;
  config.depth = 2;
  config.num_heads = 2;
  config.mlp_ratio = 2;
  config.init_values = 1e-5;
  config.reg_tokens = 1;
  return config;
}

const char* const kTimmFile = "vit_weights.safetensors";

class WeightsTest : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name); }

 private:
  support::TempDir folder_;
};

at::Tensor parameter(const Model& model, const std::string& name) {
  return model.named_parameters()[name];
}

nn::NamedTensors timm_weights() { return nn::read_tensor_file(support::golden_path(kTimmFile)); }

std::string refusal(Model& model, const nn::NamedTensors& tensors, const LoadOptions& options) {
  try {
    load_weights(model, tensors, "other.safetensors", options);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "loaded";
}

TEST_F(WeightsTest, GoFromTimmToFoveaAndBackBitForBit) {
  Vit model(timm_config());
  const auto report = load_weights(model, support::golden_path(kTimmFile));
  EXPECT_EQ(report.loaded.size(), model.named_parameters().size());
  save_weights(model, file("back.safetensors"));
  const auto before = SafetensorsFile::open(support::golden_path(kTimmFile));
  const auto after = SafetensorsFile::open(file("back.safetensors"));
  ASSERT_EQ(after.entries().size(), before.entries().size());
  ASSERT_GT(before.entries().size(), 30U);
  for (const auto& entry : before.entries()) {
    const auto* same = after.find(entry.name);
    ASSERT_NE(same, nullptr) << entry.name;
    EXPECT_EQ(same->dtype, entry.dtype);
    EXPECT_EQ(same->shape, entry.shape);
    EXPECT_TRUE(std::ranges::equal(same->bytes, entry.bytes)) << entry.name;
  }
  EXPECT_EQ(after.metadata().at("format"), "pt");
}

TEST_F(WeightsTest, KeepMetadata) {
  Vit model(timm_config());
  model.init_weights(1);
  save_weights(model, file("w.safetensors"), {{"note", "mine"}});
  EXPECT_EQ(SafetensorsFile::open(file("w.safetensors")).metadata().at("note"), "mine");
}

TEST_F(WeightsTest, AreConvertedToTheParametersDtype) {
  auto half = timm_weights();
  for (auto& item : half) item.second = item.second.to(at::kBFloat16);
  Vit model(timm_config());
  load_weights(model, half, "half");
  EXPECT_EQ(parameter(model, "head.weight").scalar_type(), at::kFloat);
  support::expect_same_bits(parameter(model, "blocks.1.attn.proj.weight").detach(),
                            support::load_golden(kTimmFile)
                                .at("blocks.1.attn.proj.weight")
                                .to(at::kBFloat16)
                                .to(at::kFloat),
                            "proj");
}

TEST_F(WeightsTest, AreRefusedWholeWithEveryDifferenceNamed) {
  auto tensors = timm_weights();
  std::erase_if(tensors, [](const auto& item) { return item.first == "norm.weight"; });
  tensors.emplace_back("blocks.1.attn.qvk.weight", support::random({48, 16}, at::kFloat, 1));
  for (auto& item : tensors) {
    if (item.first == "head.weight") item.second = item.second.narrow(0, 0, 4);
  }
  Vit model(timm_config());
  model.init_weights(1);
  const auto before = parameter(model, "cls_token").clone();
  const auto text = refusal(model, tensors, {});
  EXPECT_THAT(text, HasSubstr("other.safetensors: these are weights of another model"));
  EXPECT_THAT(text, HasSubstr("norm.weight"));
  EXPECT_THAT(text, HasSubstr("blocks.1.attn.qvk.weight (nearest: blocks.1.attn.qkv.weight)"));
  EXPECT_THAT(text, HasSubstr("head.weight: [4, 16] -> [5, 16]"));
  support::expect_same_bits(parameter(model, "cls_token"), before, "nothing was copied");
}

TEST_F(WeightsTest, OfAnotherClassifierLoadWithoutTheHead) {
  auto config = timm_config();
  config.num_classes = 7;
  Vit model(config);
  model.init_weights(1);
  const auto head = parameter(model, "head.weight").clone();
  EXPECT_THAT(refusal(model, timm_weights(), {}), HasSubstr("head.weight: [5, 16] -> [7, 16]"));
  const auto report = load_weights(model, timm_weights(), "timm", {.skip_head = true});
  EXPECT_THAT(report.skipped, ElementsAre("head.weight", "head.bias"));
  support::expect_same_bits(parameter(model, "head.weight"), head, "head.weight");
}

TEST_F(WeightsTest, OfAnotherImageSizeAreResizedAsTimmDoes) {
  const auto expected = support::load_golden("vit_weights_adapted.safetensors");
  const std::vector<std::pair<std::vector<int64_t>, const char*>> cases = {
      {{48}, "pos_embed_48"}, {{24, 40}, "pos_embed_24x40"}};
  for (const auto& [img_size, name] : cases) {
    auto config = timm_config();
    config.img_size = img_size;
    Vit model(config);
    EXPECT_THAT(refusal(model, timm_weights(), {.resize_pos_embed = false}),
                HasSubstr("pos_embed: [1, 18, 16]"));
    const auto report = load_weights(model, timm_weights(), "timm", {.resize_pos_embed = true});
    EXPECT_EQ(report.adapted.size(), 1U);
    support::expect_close(parameter(model, "pos_embed"), expected.at(name), at::kFloat, name);
  }
}

TEST_F(WeightsTest, OfOtherChannelsAreAdaptedAsTimmDoes) {
  const auto expected = support::load_golden("vit_weights_adapted.safetensors");
  for (const int64_t in_chans : {1, 4}) {
    auto config = timm_config();
    config.in_chans = in_chans;
    Vit model(config);
    EXPECT_THAT(refusal(model, timm_weights(), {}), HasSubstr("patch_embed.proj.weight: [16, 3"));
    load_weights(model, timm_weights(), "timm", {.adapt_in_chans = true});
    const auto name = "in_chans_" + std::to_string(in_chans);
    support::expect_close(parameter(model, "patch_embed.proj.weight"), expected.at(name),
                          at::kFloat, name);
  }
}

TEST_F(WeightsTest, OfAnotherWidthCannotBeAdapted) {
  auto config = timm_config();
  config.embed_dim = 32;
  Vit model(config);
  EXPECT_THAT(refusal(model, timm_weights(), {.resize_pos_embed = true, .adapt_in_chans = true}),
              HasSubstr("mismatched"));
}

TEST_F(WeightsTest, ThatAreNotSafetensorsAreRefused) {
  Vit model(timm_config());
  std::ofstream(file("w.safetensors")) << "not tensors";
  EXPECT_THROW(load_weights(model, file("w.safetensors")), DataError);
  EXPECT_THROW(load_weights(model, file("missing.safetensors")), DataError);
  EXPECT_THROW(load_weights(model, file("w.pt")), DataError);
}

// The values are views of the file: where it changes while they are used, that is noticed.
TEST_F(WeightsTest, AFileThatBecomesShorterMeanwhile) {
  const auto path = file("w.safetensors");
  std::filesystem::copy_file(support::golden_path(kTimmFile), path);
  Vit model(timm_config());
  const auto fitted = fit_weights(model, path);
  EXPECT_NO_THROW(fitted.check_unchanged());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  for (const auto& [name, tensor] : fitted.tensors) parameter(model, name).detach().copy_(tensor);
  EXPECT_THAT([&] { fitted.check_unchanged(); },
              testing::ThrowsMessage<DataError>(HasSubstr("w.safetensors: ")));
}

}  // namespace
}  // namespace fovea::models
