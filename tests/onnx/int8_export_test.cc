// Models whose linear layers are exported as products of 8-bit integers.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "fovea/kernels/cpu/int8_product.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/models/registry.h"
#include "fovea/models/vit.h"
#include "fovea/models/weights.h"
#include "fovea/nn/block_linears.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/onnx/export.h"
#include "tests/data/support.h"
#include "tests/onnx/onnx_file.h"
#include "tests/support/close.h"
#include "tests/support/python.h"

namespace fovea::onnx {
namespace {

using testing::OnnxFile;

// The change of numbers that are one code off here and there, of the largest number.
constexpr double kFewCodes = 0.01;

class Int8ExportTest : public ::testing::Test {
 protected:
  Int8ExportTest() {
    models::VitConfig config;
    config.img_size = {32};
    config.patch_size = {8};
    config.num_classes = 5;
    config.embed_dim = 32;
    config.depth = 2;
    config.num_heads = 2;
    config.global_pool = "avg";
    model_ = models::build_model({config});
    model_->init_weights(3);
    model_->eval();
    const at::NoGradGuard no_grad;
    uint64_t seed = 1;
    for (auto& item : model_->named_parameters()) {  // a head that is not zero
      item.value().add_(support::random(item.value().sizes().vec(), at::kFloat, seed++) * 0.05);
    }
    for (const auto& [name, layer] : nn::block_linears(*model_)) {
      if (name != kSkipped) options_.int8.inputs[name] = {-2.5f, name.ends_with("fc2") ? 4 : 2.6f};
    }
  }

  std::string file() const { return folder_.file("int8.onnx"); }
  // What Fovea makes of it with those layers and ranges.
  at::Tensor logits(const at::Tensor& images) const {
    const at::NoGradGuard no_grad;
    const auto copies = kernels::WeightCopies::of_model(model_->parameters());
    for (const auto& [name, layer] : nn::block_linears(*model_)) {
      if (name == kSkipped) continue;
      copies->hold_rows(layer->weight, options_.int8.inputs.at(name));
      copies->use_int8(layer->weight, true);
    }
    return model_->forward(images);
  }
  at::Tensor images() const { return support::random({3, 3, 32, 32}, at::kFloat, 40); }
  static double change(const at::Tensor& found, const at::Tensor& expected) {
    return ((found - expected).abs().max() / expected.abs().max()).item<double>();
  }

  static constexpr const char* kSkipped = "blocks.1.attn.proj";
  data::testing::TempDir folder_;
  models::ModelPtr model_;
  ExportOptions options_;
};

TEST_F(Int8ExportTest, TheFileSaysWhatCalibratedInt8Computes) {
  const auto report = export_model(*model_, file(), options_);
  EXPECT_EQ(report.num_int8, 7);
  const auto read = OnnxFile::read(file());
  EXPECT_EQ(read.count("QuantizeLinear"), 7);
  EXPECT_EQ(read.count("DequantizeLinear"), 14);
  const at::NoGradGuard no_grad;
  const auto expected = logits(images()), found = read.run({{"images", images()}}).at("logits");
  const double error = change(found, expected), wide = change(model_->forward(images()), expected);
  EXPECT_LT(error, kFewCodes);
  EXPECT_GT(wide, 2 * error) << "of what float32 gives";
}

TEST_F(Int8ExportTest, WeightsAreTheCodesOfTheKernel) {
  for (const int bits : {8, 7}) {
    options_.int8.weight_bits = bits;
    export_model(*model_, file(), options_);
    const auto read = OnnxFile::read(file());
    for (const auto& [name, layer] : nn::block_linears(*model_)) {
      const auto weight = layer->weight.detach();
      if (name == kSkipped) {
        support::expect_same_bits(read.initializers.at(name + ".weight_transposed"), weight.t(),
                                  name);
        continue;
      }
      EXPECT_FALSE(read.initializers.contains(name + ".weight_transposed")) << "twice in the file";
      const auto codes = read.initializers.at(name + ".weight_quantized");
      const auto scales = read.initializers.at(name + ".weight_scale");
      const int most = bits == 8 ? 127 : 63;
      EXPECT_EQ(codes.to(at::kInt).abs().max().item<int>(), most);
      const auto error = (codes.to(at::kFloat) * scales.unsqueeze(1) - weight).abs();
      EXPECT_TRUE(error.le(0.501 * scales.unsqueeze(1)).all().item<bool>()) << name;
      EXPECT_TRUE(read.initializers.at(name + ".weight_zero_point").eq(0).all().item<bool>());
      const auto row = kernels::cpu::int8_row(options_.int8.inputs.at(name));
      EXPECT_EQ(read.initializers.at(name + ".input_scale").item<float>(), row.scale);
      EXPECT_EQ(read.initializers.at(name + ".input_zero_point").item<int>(), row.zero);
    }
  }
}

TEST_F(Int8ExportTest, LayersOfZerosDivideByNothing) {
  {
    const at::NoGradGuard no_grad;
    nn::block_linears(*model_)[0].second->weight[3].zero_();
  }
  options_.int8.inputs.at("blocks.0.mlp.fc1") = {};
  export_model(*model_, file(), options_);
  const auto found = OnnxFile::read(file()).run({{"images", images()}}).at("logits");
  EXPECT_LT(change(found, logits(images())), kFewCodes);
}

TEST_F(Int8ExportTest, LeavesTheCodesOfTheModelAlone) {
  const at::NoGradGuard no_grad;
  const auto copies = kernels::WeightCopies::of_model(model_->parameters());
  for (const auto& [name, layer] : nn::block_linears(*model_)) {
    copies->use_int8(layer->weight, true);
  }
  const auto before = model_->forward(images());
  export_model(*model_, file(), options_);
  support::expect_same_bits(model_->forward(images()), before, "logits");
}

TEST_F(Int8ExportTest, ValuesInAFileOfTheirOwn) {
  export_model(*model_, file(), options_);
  const auto one = OnnxFile::read(file()).run({{"images", images()}}).at("logits");
  options_.file.max_inline_bytes = 1000;
  export_model(*model_, file(), options_);
  support::expect_same_bits(OnnxFile::read(file()).run({{"images", images()}}).at("logits"), one,
                            "logits");
}

// Weights of 7 bits, which no processor's instructions cut off.
TEST_F(Int8ExportTest, OnnxRuntimeGivesTheSame) {
  FOVEA_NEEDS_PYTHON();
  if (support::run_command(support::python() + " -c 'import onnxruntime' 2>&1").status != 0) {
    GTEST_SKIP() << "$FOVEA_PYTHON has no onnxruntime (tools/setup/python-packages.txt)";
  }
  options_.int8.weight_bits = 7;
  export_model(*model_, file(), options_);
  const auto expected = OnnxFile::read(file()).run({{"images", images()}}).at("logits");
  nn::write_tensor_file(folder_.file("int8.images.npy"), {{"array", images()}});
  nn::write_tensor_file(folder_.file("int8.logits.npy"), {{"array", expected}});
  const auto result = support::run_command(
      support::python() + " " FOVEA_SOURCE_DIR "/tools/onnxruntime_check.py " + folder_.path());
  ASSERT_EQ(result.status, 0) << result.output;
  const auto found = nlohmann::json::parse(result.output).at("int8");
  const double worst = found.at("worst"), largest = found.at("largest");
  EXPECT_LT(worst, kFewCodes * largest);
  std::cout << "  worst difference " << worst << " of " << largest << "\n";
}

}  // namespace
}  // namespace fovea::onnx
