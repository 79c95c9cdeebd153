#include "fovea/onnx/export.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/core/error.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/mae.h"
#include "fovea/models/registry.h"
#include "fovea/models/sap.h"
#include "fovea/models/t2t_vit.h"
#include "fovea/models/unetr.h"
#include "fovea/models/vit.h"
#include "fovea/models/weights.h"
#include "fovea/nn/patchify.h"
#include "fovea/nn/tensor_file.h"
#include "tests/data/support.h"
#include "tests/onnx/onnx_file.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/support/python.h"

namespace fovea::onnx {
namespace {

namespace fs = std::filesystem;
using testing::OnnxFile;

struct ExportCase {
  std::string name;
  models::ModelConfig config;
  Part part = Part::kAll;
};

models::VitConfig small_vit() {
  models::VitConfig config;
  config.img_size = {32};
  config.patch_size = {8};
  config.num_classes = 5;
  config.embed_dim = 32;
  config.depth = 2;
  config.num_heads = 2;
  return config;
}

template <class Change>
ExportCase vit_case(const std::string& name, const Change& change, Part part = Part::kAll) {
  auto config = small_vit();
  change(config);
  return {name, {config}, part};
}

models::ModelConfig small_unetr(std::vector<int64_t> sides, bool linear) {
  models::UnetrConfig config;
  auto vit = small_vit();
  vit.img_size = sides;
  vit.patch_size = std::vector<int64_t>(sides.size(), 8);
  vit.in_chans = 1;
  vit.depth = 4;
  config.encoder.vit = models::EncoderConfig::headless(vit);
  config.num_classes = 3;
  config.feature_size = 4;
  config.linear_decoder = linear;
  return {config};
}

models::ModelConfig small_t2t(const std::string& attention) {
  models::T2tVitConfig config;
  config.apply_preset("t2t_vit_7");
  config.img_size = {32};
  config.embed_dim = 32;
  config.num_heads = 2;
  config.depth = 2;
  config.token_dim = 16;
  config.num_classes = 5;
  config.token_attention = attention;
  return {config};
}

std::vector<ExportCase> vit_cases() {
  using Config = models::VitConfig;
  return {
      vit_case("plain", [](Config&) {}),
      vit_case("average", [](Config& c) { c.global_pool = "avg"; }),
      vit_case("average_and_maximum", [](Config& c) { c.global_pool = "avgmax"; }),
      vit_case("maximum_with_prefix",
               [](Config& c) {
                 c.global_pool = "max";
                 c.pool_include_prefix = true;
               }),
      vit_case("map_pool_registers_norms",
               [](Config& c) {
                 c.global_pool = "map";
                 c.class_token = false;
                 c.reg_tokens = 3;
                 c.qk_norm = c.scale_attn_norm = c.scale_mlp_norm = true;
               }),
      vit_case("dinov2_like",
               [](Config& c) {
                 c.init_values = 0.5;
                 c.reg_tokens = 2;
                 c.no_embed_class = true;
                 c.mlp_layer = "swiglu_packed";
                 c.act_layer = "silu";
               }),
      vit_case("swiglu_rms",
               [](Config& c) {
                 c.mlp_layer = "swiglu";
                 c.act_layer = "silu";
                 c.norm_layer = "rms_norm";
               }),
      vit_case("distilled", [](Config& c) { c.distilled = true; }),
      vit_case("clip_like",
               [](Config& c) {
                 c.pre_norm = true;
                 c.act_layer = "quick_gelu";
                 c.pos_embed_interp = "bilinear";
               }),
      vit_case("tanh_gelu", [](Config& c) { c.act_layer = "gelu_tanh"; }),
      vit_case("relu_no_bias",
               [](Config& c) {
                 c.act_layer = "relu";
                 c.qkv_bias = c.proj_bias = false;
               }),
      vit_case("res_post_norm",
               [](Config& c) {
                 c.block_layer = "res_post_norm";
                 c.embed_norm = true;
               }),
      vit_case("parallel_things", [](Config& c) { c.block_layer = "parallel_things"; }),
      vit_case("parallel_scaling",
               [](Config& c) {
                 c.block_layer = "parallel_scaling";
                 c.qkv_bias = false;
                 c.qk_norm = true;
               }),
      vit_case("diff", [](Config& c) { c.attn_layer = "diff"; }),
      vit_case("diff_parallel_scaling",
               [](Config& c) {
                 c.attn_layer = "diff";
                 c.block_layer = "parallel_scaling";
               }),
      vit_case("two_layer_head", [](Config& c) { c.representation_size = 24; }),
      vit_case("no_head", [](Config& c) { c.num_classes = 0; }),
      vit_case("sincos_without_class_token",
               [](Config& c) {
                 c.pos_embed = "sincos";
                 c.class_token = false;
                 c.global_pool = "avg";
               }),
      vit_case("no_position", [](Config& c) { c.pos_embed = "none"; }),
      vit_case("uneven_cropped",
               [](Config& c) {
                 c.img_size = {35, 26};
                 c.crop_to_patches = true;
                 c.in_chans = 1;
               }),
      vit_case("uneven_padded",
               [](Config& c) {
                 c.img_size = {35, 26};
                 c.dynamic_img_pad = true;
               }),
      vit_case("volume",
               [](Config& c) {
                 c.img_size = {16, 24, 8};
                 c.patch_size = {8, 8, 4};
                 c.in_chans = 2;
               }),
      vit_case(
          "encoder", [](Config&) {}, Part::kEncoder),
      vit_case(
          "encoder_of_map",
          [](Config& c) {
            c.global_pool = "map";
            c.class_token = false;
          },
          Part::kEncoder),
  };
}

// Of 13 patches of 4 x 4 (x 4).
models::VitConfig adaptive_vit(std::vector<int64_t> sides) {
  auto vit = small_vit();
  vit.img_size = std::move(sides);
  vit.patch_size = {4};
  vit.in_chans = 2;
  vit.patching = "adaptive";
  vit.fixed_length = 13;
  vit.pos_embed = "size_and_center";
  return vit;
}

models::ModelConfig small_mae(const models::VitConfig& vit) {
  models::MaeConfig config;
  config.encoder.vit = models::EncoderConfig::headless(vit);
  config.mask_ratio = 0.6;
  config.decoder_embed_dim = 24;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  if (vit.is_adaptive()) config.decoder_pos_embed = "size_and_center";
  return {config};
}

models::ModelConfig small_denoiser(const models::VitConfig& vit, const std::string& conditioning) {
  models::DiffusionVitConfig config;
  config.encoder.vit = models::EncoderConfig::headless(vit);
  config.encoder.vit.class_token = false;
  config.conditioning = conditioning;
  config.linear_decoder = false;
  config.decoder_embed_dim = 24;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  config.num_classes = conditioning == "add" ? 0 : 4;
  return {config};
}

models::ModelConfig adaptive_unetr(const std::string& map) {
  models::UnetrConfig config;
  auto vit = adaptive_vit({32, 32});
  vit.depth = 4;
  if (map == "sequence") vit.fixed_length = 16;
  config.encoder.vit = models::EncoderConfig::headless(vit);
  config.num_classes = 3;
  config.feature_size = 4;
  config.adaptive_map = map;
  return {config};
}

models::ModelConfig small_sap() {
  models::SapConfig config;
  config.encoder.vit = models::EncoderConfig::headless(adaptive_vit({16, 24, 16}));
  config.num_classes = 3;
  config.decoder_dim = 8;
  return {config};
}

// Of what a tree cuts, and of what is drawn.
std::vector<ExportCase> cases_of_more_than_images() {
  auto learned = adaptive_vit({32});
  learned.pos_embed = "learn";
  learned.global_pool = "avg";
  auto volume = small_vit();
  volume.img_size = {16, 16, 8};
  volume.patch_size = {8, 8, 4};
  return {{"adaptive_vit", {adaptive_vit({32})}},
          {"adaptive_vit_learned_average", {learned}},
          {"sap_volume", small_sap()},
          {"unetr_sequence", adaptive_unetr("sequence")},
          {"unetr_adaptive_map", adaptive_unetr("image")},
          {"mae", small_mae(small_vit())},
          {"mae_volume", small_mae(volume)},
          {"mae_adaptive", small_mae(adaptive_vit({32}))},
          {"diffusion_adaln", small_denoiser(small_vit(), "adaln_zero")},
          {"diffusion_add", small_denoiser(volume, "add")},
          {"diffusion_adaptive", small_denoiser(adaptive_vit({32}), "adaln_zero")}};
}

std::vector<ExportCase> all_cases() {
  auto cases = vit_cases();
  for (auto& item : cases_of_more_than_images()) cases.push_back(std::move(item));
  cases.push_back({"t2t_performer", small_t2t("performer")});
  cases.push_back({"t2t_transformer", small_t2t("transformer")});
  cases.push_back({"t2t_encoder", small_t2t("performer"), Part::kEncoder});
  cases.push_back({"unetr", small_unetr({32, 32}, false)});
  cases.push_back({"unetr_volume", small_unetr({16, 16, 24}, false)});
  cases.push_back({"unetr_linear", small_unetr({32, 32}, true)});
  cases.push_back({"unetr_encoder", small_unetr({16, 16, 16}, false), Part::kEncoder});
  return cases;
}

// Weights in which no bias is zero and no norm one.
models::ModelPtr model_of(const ExportCase& item) {
  auto model = models::build_model(item.config);
  model->init_weights(3);
  model->eval();
  const at::NoGradGuard no_grad;
  uint64_t seed = 100;
  for (auto& value : model->parameters()) {
    value.add_(0.2 * support::random(value.sizes().vec(), at::kFloat, seed++));
  }
  return model;
}

at::Tensor images_for(const models::Model& model, int64_t count, uint64_t seed) {
  auto shape = model.input_spec().img_size;
  shape.insert(shape.begin(), {count, model.input_spec().in_chans});
  return support::random(shape, at::kFloat, seed);
}

at::Tensor or_nothing(const support::NamedTensors& inputs, const std::string& name) {
  const auto found = inputs.find(name);
  return found == inputs.end() ? at::Tensor() : found->second;
}

models::PatchInput patches_of(const support::NamedTensors& inputs) {
  models::PatchInput patches{.tokens = inputs.at("tokens"),
                             .sizes = or_nothing(inputs, "sizes"),
                             .centers = or_nothing(inputs, "centers"),
                             .padding = inputs.at("padding")};
  patches.images = or_nothing(inputs, "images");
  patches.leaf_shares = or_nothing(inputs, "leaf_shares");
  return patches;
}

// Of a model that takes more than images.
at::Tensor output_of(models::Model& model, const support::NamedTensors& inputs) {
  if (auto* mae = dynamic_cast<models::Mae*>(&model)) {
    const auto& ids = inputs.at("ids_keep");
    if (mae->takes_patches()) {
      return mae->predict(patches_of(inputs), {.ids = ids, .seen = inputs.at("seen")});
    }
    const auto& images = inputs.at("images");
    return nn::unpatchify(mae->predict(images, {ids}), mae->encoder().config().patch_sides(),
                          images.sizes().slice(2));
  }
  if (auto* denoiser = dynamic_cast<models::DiffusionVit*>(&model)) {
    const auto &timesteps = inputs.at("timesteps"), classes = or_nothing(inputs, "classes");
    return denoiser->takes_patches() ? denoiser->denoise(patches_of(inputs), timesteps, classes)
                                     : denoiser->denoise(inputs.at("images"), timesteps, classes);
  }
  return model.takes_patches() ? model.forward(patches_of(inputs))
                               : model.forward(inputs.at("images"));
}

// What the exported outputs are in Fovea.
support::NamedTensors outputs_of(models::Model& model, const ExportCase& item,
                                 const ExportReport& report, const support::NamedTensors& inputs) {
  const at::NoGradGuard no_grad;
  support::NamedTensors outputs;
  const auto images = or_nothing(inputs, "images");
  auto* vit = dynamic_cast<models::Vit*>(&model);
  if (auto* unetr = dynamic_cast<models::Unetr*>(&model)) vit = &unetr->encoder();
  for (const auto& port : report.graph.outputs) {
    if (item.part == Part::kAll) {
      outputs[port.name] = output_of(model, inputs);
    } else if (auto* t2t = dynamic_cast<models::T2tVit*>(&model)) {
      outputs[port.name] = t2t->forward_features(images);
    } else {
      const auto tokens = vit->forward_features(images);
      outputs[port.name] = port.name == "tokens" ? tokens : vit->forward_head(tokens, true);
    }
  }
  return outputs;
}

class OnnxExportTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return dir_.path() + "/" + name; }

  data::testing::TempDir dir_;
};

// The file read back by a reader of the tests' own: every parameter that the outputs need with its
// name and its bits, nothing else but constants, shapes, and the values that come out.
TEST_F(OnnxExportTest, FileSaysWhatTheModelDoes) {
  for (const auto& item : all_cases()) {
    SCOPED_TRACE(item.name);
    const auto model = model_of(item);
    const auto report = export_model(*model, path(item.name + ".onnx"), {.part = item.part});
    const auto file = OnnxFile::read(path(item.name + ".onnx"));
    EXPECT_EQ(file.opset, kOpset);
    EXPECT_EQ(file.nodes.size(), report.graph.nodes.size());
    std::map<std::string, at::Tensor> found;
    for (const auto& [name, value] : file.initializers) {
      if (!name.starts_with("constant.")) found[name] = value;
    }
    size_t num_heads = 0;  // behind the part that was exported
    for (const auto& [name, value] : models::weights_of(*model)) {
      if (found.contains(name)) {
        support::expect_same_bits(found.at(name), value, name);
        continue;
      }
      if (found.contains(name + "_transposed")) {
        support::expect_same_bits(found.at(name + "_transposed"), value.t(), name);
        continue;
      }
      num_heads += 1;
      EXPECT_EQ(item.part, Part::kEncoder) << name << " is missing";
      EXPECT_TRUE(!name.starts_with("encoder.") && !name.starts_with("blocks.")) << name;
    }
    EXPECT_EQ(found.size() + num_heads, model->named_parameters().size());
    for (const int64_t count : {1, 3}) {
      const auto inputs = make_example(*model, {.part = item.part}, count, 7).inputs;
      EXPECT_PARITY(file.run(inputs), outputs_of(*model, item, report, inputs), at::kFloat);
    }
  }
}

TEST_F(OnnxExportTest, GraphOfAPlainVit) {
  const auto model = model_of(vit_cases()[0]);
  export_model(*model, path("vit.onnx"), {.file = {.metadata = {{"made", "of"}}}});
  const auto file = OnnxFile::read(path("vit.onnx"));
  EXPECT_EQ(file.producer, "fovea");
  EXPECT_EQ(file.ir_version, 8);
  EXPECT_EQ(file.metadata.at("made"), "of");
  ASSERT_EQ(file.inputs.size(), 1u);
  EXPECT_EQ(file.inputs[0].name, "images");
  EXPECT_EQ(file.inputs[0].shape, (std::vector<std::string>{"batch", "3", "32", "32"}));
  ASSERT_EQ(file.outputs.size(), 1u);
  EXPECT_EQ(file.outputs[0].name, "logits");
  EXPECT_EQ(file.outputs[0].shape, (std::vector<std::string>{"batch", "5"}));
  // Patches, head, and of each of two blocks qkv, scores, mixture, projection and two of the MLP.
  EXPECT_EQ(file.count("MatMul"), 2 + 2 * 6);
  EXPECT_EQ(file.count("LayerNormalization"), 2 * 2 + 1);
  EXPECT_EQ(file.count("Softmax"), 2);
  EXPECT_EQ(file.count("Erf"), 2);
  std::set<std::string> names;
  for (const auto& node : file.nodes) EXPECT_TRUE(names.insert(node.name).second) << node.name;
  EXPECT_TRUE(names.contains("blocks.1.attn.Softmax"));
}

TEST_F(OnnxExportTest, AFixedBatchHasNoShapeOperators) {
  const auto item = vit_cases()[4];  // its query is spread over the batch
  const auto model = model_of(item);
  const auto report = export_model(*model, path("fixed.onnx"), {.batch_size = 2});
  const auto file = OnnxFile::read(path("fixed.onnx"));
  EXPECT_EQ(file.inputs[0].shape[0], "2");
  EXPECT_EQ(file.outputs[0].shape[0], "2");
  EXPECT_EQ(file.count("Shape"), 0);
  const auto inputs = make_example(*model, {}, 2, 9).inputs;
  EXPECT_PARITY(file.run(inputs), outputs_of(*model, item, report, inputs), at::kFloat);
  export_model(*model, path("any.onnx"));
  EXPECT_EQ(OnnxFile::read(path("any.onnx")).count("Shape"), 1);
}

// The model comes back from a trace as it was: values, gradients, callbacks.
TEST_F(OnnxExportTest, LeavesTheModelAlone) {
  const auto model = model_of(vit_cases()[0]);
  const auto before = models::weights_of(*model);
  std::vector<at::Tensor> copies;
  for (const auto& item : before) copies.push_back(item.second.clone());
  const auto images = images_for(*model, 2, 1);
  const auto expected = model->forward(images).detach();
  export_model(*model, path("vit.onnx"));
  const auto after = models::weights_of(*model);
  ASSERT_EQ(after.size(), copies.size());
  for (size_t i = 0; i < copies.size(); ++i) {
    support::expect_same_bits(after[i].second, copies[i], after[i].first);
  }
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
  }
  for (const auto& module : model->modules()) {
    const auto* unit = dynamic_cast<nn::UnitImpl*>(module.get());
    if (unit == nullptr) continue;
    EXPECT_TRUE(unit->before_forward.empty() && unit->after_forward.empty());
  }
  support::expect_same_bits(model->forward(images).detach(), expected, "logits");
}

TEST_F(OnnxExportTest, ValuesInAFileOfTheirOwn) {
  const auto item = vit_cases()[0];
  const auto model = model_of(item);
  const auto whole = export_model(*model, path("one.onnx"));
  EXPECT_TRUE(whole.file.data_file.empty());
  EXPECT_EQ(static_cast<uintmax_t>(whole.file.bytes), fs::file_size(path("one.onnx")));
  const auto report = export_model(*model, path("two.onnx"), {.file = {.max_inline_bytes = 1000}});
  EXPECT_EQ(report.file.data_file, path("two.onnx.data"));
  EXPECT_EQ(static_cast<uintmax_t>(report.file.bytes),
            fs::file_size(path("two.onnx")) + fs::file_size(path("two.onnx.data")));
  const auto one = OnnxFile::read(path("one.onnx")), two = OnnxFile::read(path("two.onnx"));
  ASSERT_EQ(one.initializers.size(), two.initializers.size());
  for (const auto& [name, value] : one.initializers) {
    support::expect_same_bits(two.initializers.at(name), value, name);
  }
}

TEST_F(OnnxExportTest, SaysWhatEachInputIs) {
  for (const auto& item : cases_of_more_than_images()) {
    SCOPED_TRACE(item.name);
    const auto model = model_of(item);
    export_model(*model, path("more.onnx"), {.num_time_steps = 50});
    const auto file = OnnxFile::read(path("more.onnx"));
    const auto described = nlohmann::json::parse(file.metadata.at("fovea.inputs"));
    ASSERT_EQ(described.size(), file.inputs.size());
    for (const auto& port : file.inputs) {
      EXPECT_EQ(described.at(port.name), port.help);
      EXPECT_FALSE(port.help.empty()) << port.name;
    }
  }
  const auto learned = model_of(cases_of_more_than_images()[1]);
  export_model(*learned, path("learned.onnx"));
  const auto file = OnnxFile::read(path("learned.onnx"));
  ASSERT_EQ(file.inputs.size(), 2u);  // nothing depends on sizes and centres
  EXPECT_EQ(file.inputs[1].name, "padding");
  EXPECT_EQ(file.inputs[1].dtype, at::kBool);
}

TEST_F(OnnxExportTest, PartsThatMeanNothingAreRefusedByName) {
  using ::testing::HasSubstr;
  const auto message = [&](const models::ModelConfig& config) -> std::string {
    const auto model = models::build_model(config);
    model->init_weights(0);
    model->eval();
    try {
      export_model(*model, path("refused.onnx"), {.part = Part::kEncoder});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(small_mae(small_vit())), "");
  EXPECT_THAT(
      message(small_denoiser(small_vit(), "add")),
      HasSubstr("a model diffusion_vit cannot be exported to ONNX: its tokens mean nothing"));
  EXPECT_THAT(message({adaptive_vit({32})}), HasSubstr("it takes adaptive patches"));
  EXPECT_TRUE(!fs::exists(path("refused.onnx.data")));
}

TEST_F(OnnxExportTest, OnnxRuntimeGivesTheSame) {
  FOVEA_NEEDS_PYTHON();
  if (support::run_command(support::python() + " -c 'import onnxruntime' 2>&1").status != 0) {
    GTEST_SKIP() << "$FOVEA_PYTHON has no onnxruntime (tools/setup/python-packages.txt)";
  }
  for (const auto& item : all_cases()) {
    const auto model = model_of(item);
    // The largest of them has its values in a file of their own.
    const int64_t limit = item.name == "unetr_volume" ? 1000 : 1 << 30;
    const auto report = export_model(*model, path(item.name + ".onnx"),
                                     {.part = item.part, .file = {.max_inline_bytes = limit}});
    const auto inputs = make_example(*model, {.part = item.part}, 3, 11).inputs;
    for (const auto& [name, value] : inputs) {
      nn::write_tensor_file(path(item.name + "." + name + ".npy"),
                            {{"array", value.to(at::kFloat)}});
    }
    for (const auto& [name, value] : outputs_of(*model, item, report, inputs)) {
      nn::write_tensor_file(path(item.name + "." + name + ".npy"), {{"array", value}});
    }
  }
  const auto result = support::run_command(
      support::python() + " " FOVEA_SOURCE_DIR "/tools/onnxruntime_check.py " + dir_.path());
  ASSERT_EQ(result.status, 0) << result.output;
  const auto found = nlohmann::json::parse(result.output);
  ASSERT_EQ(found.size(), all_cases().size());
  double worst = 0;
  for (const auto& [name, one] : found.items()) {
    const double error = one.at("worst");
    EXPECT_LT(error, 1e-4) << name;
    EXPECT_GT(one.at("largest"), 1e-2) << name;
    worst = std::max(worst, error);
  }
  std::cout << "  " << found.size() << " models, worst difference " << worst << "\n";
}

}  // namespace
}  // namespace fovea::onnx
