#include "fovea/weights/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/weights/npz_file.h"
#include "fovea/weights/read_weights.h"
#include "fovea/weights/torch_writer.h"
#include "tests/support/close.h"
#include "tests/support/zip_of.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using ::testing::AllOf;
using testing::by_name;
using ::testing::ElementsAre;
using testing::expected;
using testing::foreign_file;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::TempDir;

std::vector<std::string> names_of(const nn::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& item : tensors) names.push_back(item.first);
  return names;
}

WeightsFile named(const std::vector<std::string>& names) {
  WeightsFile file;
  for (const auto& name : names) file.tensors.emplace_back(name, at::Tensor());
  return file;
}

TEST(WeightsFileTest, TellsFormatsByTheirBytes) {
  EXPECT_EQ(read_weights_file(foreign_file("hf_vit.safetensors")).format, "safetensors");
  EXPECT_EQ(read_weights_file(foreign_file("hf_vit_model.bin")).format, "torch");
  EXPECT_EQ(read_weights_file(foreign_file("dinov2_training.pth")).format, "torch");
  EXPECT_EQ(read_weights_file(foreign_file("google_augreg.npz")).format, "npz");
  EXPECT_EQ(read_weights_file(foreign_file("dcp")).format, "DCP");
}

TEST(WeightsFileTest, TakesTheWeightsOfACheckpoint) {
  const auto file = read_weights_file(foreign_file("timm.pth.tar"));
  EXPECT_THAT(file.notes,
              ElementsAre("the tensors under \"state_dict\"", "\"module.\" taken off the names"));
  const auto golden = expected().group("timm/weights");
  EXPECT_EQ(file.tensors.size(), golden.size());
  EXPECT_EQ(file.left_out.size(), golden.size()) << "the averaged ones";
  for (const auto& [name, tensor] : file.tensors)
    support::expect_same_bits(tensor, golden.at(name), name);
  const auto averaged = read_weights_file(foreign_file("timm.pth.tar"), "state_dict_ema");
  for (const auto& [name, tensor] : averaged.tensors)
    support::expect_same_bits(tensor, golden.at(name) * 0.5, name);
  EXPECT_THAT(
      refusal_of([] { read_weights_file(foreign_file("timm.pth.tar"), "ema"); }),
      AllOf(HasSubstr("no tensors under \"ema\""), HasSubstr("state_dict, state_dict_ema")));
}

TEST(WeightsFileTest, TakesTheTeacherOfSelfDistillation) {
  const auto file = read_weights_file(foreign_file("dinov2_training.pth"));
  EXPECT_THAT(file.left_out, ElementsAre("dino_head.last_layer.weight"));
  EXPECT_TRUE(by_name(file.tensors).contains("blocks.0.0.norm1.weight"));
  auto both = named({"teacher.backbone.norm.weight", "student.backbone.norm.weight"});
  take_off_prefixes(both);
  EXPECT_THAT(names_of(both.tensors), ElementsAre("norm.weight"));
  EXPECT_THAT(both.left_out, ElementsAre("student.backbone.norm.weight"));
}

TEST(WeightsFileTest, TakesOffPrefixesThatAllNamesHave) {
  auto wrapped = named({"module._orig_mod.model.norm.bias", "module._orig_mod.model.head.bias"});
  take_off_prefixes(wrapped);
  EXPECT_THAT(names_of(wrapped.tensors), ElementsAre("norm.bias", "head.bias"));
  auto part = named({"backbone.norm.bias", "head.bias"});
  take_off_prefixes(part);
  EXPECT_THAT(names_of(part.tensors), ElementsAre("backbone.norm.bias", "head.bias"));
}

TEST(WeightsFileTest, AsksForTheKeyWhereItIsNotPlain) {
  const TempDir folder;
  const auto tensor = expected().at("images");
  // Dotted names of one dict are no keys of dicts in it.
  write_torch_file(folder.file("flat.pt"), {{"first.a", tensor}, {"second.a", tensor}});
  EXPECT_EQ(read_weights_file(folder.file("flat.pt")).tensors.size(), 2U);
  write_torch_file(folder.file("none.pt"), nn::NamedTensors{});
  EXPECT_THAT(refusal_of([&] { read_weights_file(folder.file("none.pt")); }),
              HasSubstr("no tensors"));
}

TEST(WeightsFileTest, RefusesOtherFiles) {
  const TempDir folder;
  std::ofstream(folder.file("text.pt")) << "these are no weights";
  EXPECT_THAT(refusal_of([&] { read_weights_file(folder.file("text.pt")); }),
              HasSubstr("neither safetensors"));
  EXPECT_THAT(refusal_of([&] { read_weights_file(folder.file("none.pt")); }),
              HasSubstr("cannot open the file"));
  EXPECT_THAT(refusal_of([&] { read_weights_file(folder.file("")); }),
              HasSubstr("a folder without .metadata"));
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data;
}

TEST(WeightsFileTest, RefusesArraysThatLie) {
  const TempDir folder;
  const auto refusal = [&](const std::string& name, const std::string& array) {
    const auto path = folder.write("w.npz", support::stored_zip({{name, array}}));
    return refusal_of([&] { read_npz(path); });
  };
  EXPECT_EQ(refusal("a/b.npy", npy("<f4", "(1,)", "abcd")), "nothing was refused");
  EXPECT_EQ(refusal("a/b.npy", npy("|V2", "(2,)", "abcd")), "nothing was refused");
  EXPECT_THAT(refusal("a/b.npy", npy("<f4", "(2,)", "abcd")), HasSubstr("4 bytes of data"));
  EXPECT_THAT(refusal("a/b.npy", npy("|O", "(1,)", "abcd")), HasSubstr("pickled objects"));
  EXPECT_THAT(refusal("a/b.npy", npy("|V4", "(1,)", "abcd")), HasSubstr("dtype '|V4'"));
  EXPECT_THAT(refusal("a/b.npy", npy("<u4", "(1,)", "abcd")), HasSubstr("no counterpart"));
  EXPECT_THAT(refusal("a/b.txt", "abcd"), HasSubstr("names that end in .npy"));
  EXPECT_THAT(refusal("../b.npy", npy("<f4", "(1,)", "abcd")), HasSubstr("\"..\""));
}

TEST(ReadWeightsTest, NamesAModelsOwnFileByItsNames) {
  const TempDir folder;
  const auto tensor = expected().at("images");
  nn::write_tensor_file(folder.file("w.safetensors"), {{"mask_token", tensor}, {"x", tensor}});
  EXPECT_EQ(read_weights(folder.file("w.safetensors")).naming, "dinov2");
  EXPECT_EQ(read_weights(folder.file("w.safetensors"), {.known = {"mask_token", "x", "y"}}).naming,
            "");
  EXPECT_EQ(read_weights(foreign_file("hf_vit.safetensors"), {.from = "hf"}).naming, "hf_vit");
  EXPECT_THAT(refusal_of([] { read_weights(foreign_file("mae.pth"), {.from = "hf"}); }),
              HasSubstr("not Hugging Face's but MAE"));
}

TEST(ReadWeightsTest, AQueryWithoutAKeyIsRefused) {
  const TempDir folder;
  auto tensors = read_weights_file(foreign_file("hf_vit.safetensors")).tensors;
  std::erase_if(tensors, [](const auto& item) {
    return item.first.ends_with("layer.0.attention.attention.key.weight");
  });
  nn::write_tensor_file(folder.file("w.safetensors"), tensors);
  EXPECT_THAT(refusal_of([&] { read_weights(folder.file("w.safetensors")); }),
              HasSubstr("vit.encoder.layer.0.attention.attention.key.weight"));
}

}  // namespace
}  // namespace fovea::weights
