// What is gathered together, of models of the sizes that they are trained in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/models/partitionings.h"
#include "fovea/models/registry.h"
#include "fovea/parallel/sharded_params.h"
#include "tests/train/model_cases.h"

namespace fovea::parallel {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

struct Pieces {
  std::vector<std::string> names;
  double rest = 0;  // share of the parameters that is in no unit
};

Pieces pieces_of(const models::ModelConfig& config, int64_t min_num_params = 0) {
  const auto model = models::build_model(config, at::kMeta);
  const auto partitioning = models::partitioning_of(config);
  Pieces result;
  double all = 0;
  for (const auto& piece :
       pieces_by_unit(*model, {.min_num_params = min_num_params, .units = partitioning.units})) {
    double size = 0;
    for (const auto& [name, param] : piece.params) size += static_cast<double>(param.numel());
    all += size;
    if (piece.unit == nullptr) {
      result.rest += size;
    } else {
      result.names.push_back(piece.name);
      EXPECT_EQ(piece.unit->path(), piece.name);
    }
  }
  result.rest /= all;
  return result;
}

void make_large(models::VitConfig& vit, bool is_3d) {
  vit.img_size = is_3d ? std::vector<int64_t>{64, 64, 64} : std::vector<int64_t>{224};
  vit.patch_size = {16};
  vit.embed_dim = 768;
  vit.depth = 12;
  vit.num_heads = 12;
}

// Position embeddings, tokens, norms and other small things are what no unit has.
TEST(ParamPiecesTest, LittleOfALargeModelIsInNoPiece) {
  models::VitConfig vit;
  make_large(vit, false);
  vit.num_classes = 1000;
  const auto of_vit = pieces_of({vit});
  EXPECT_THAT(of_vit.names, IsSupersetOf({"patch_embed", "blocks.0", "blocks.11", "head"}));
  EXPECT_THAT(of_vit.names, Not(Contains("norm")));
  EXPECT_LT(of_vit.rest, 0.01);

  models::MaeConfig mae;
  make_large(mae.encoder.vit, false);
  const auto of_mae = pieces_of({mae});
  EXPECT_THAT(of_mae.names, IsSupersetOf({"encoder.patch_embed", "decoder_embed",
                                          "decoder_blocks.0", "decoder_pred"}));
  EXPECT_LT(of_mae.rest, 0.01);

  models::UnetrConfig unetr;
  make_large(unetr.encoder.vit, true);
  unetr.num_classes = 14;
  unetr.feature_size = 32;
  const auto of_unetr = pieces_of({unetr});
  EXPECT_THAT(of_unetr.names, IsSupersetOf({"encoder2", "encoder3", "encoder4", "decoder5",
                                            "decoder4", "decoder3"}));
  EXPECT_LT(of_unetr.rest, 0.01);

  models::SapConfig sap;
  make_large(sap.encoder.vit, false);
  sap.encoder.vit.patching = "adaptive";
  sap.encoder.vit.fixed_length = 196;
  sap.encoder.vit.pos_embed = "size_and_center";
  sap.num_classes = 4;
  const auto of_sap = pieces_of({sap});
  EXPECT_THAT(of_sap.names, Contains("head"));
  EXPECT_LT(of_sap.rest, 0.01);

  models::T2tVitConfig t2t;
  t2t.embed_dim = 512;
  t2t.depth = 14;
  t2t.num_heads = 8;
  EXPECT_LT(pieces_of({t2t}).rest, 0.03);

  models::DiffusionVitConfig diffusion;
  make_large(diffusion.encoder.vit, false);
  const auto of_diffusion = pieces_of({diffusion});
  EXPECT_THAT(of_diffusion.names, Contains("time_embed"));
  EXPECT_LT(of_diffusion.rest, 0.01);
}

// Of tiny models only blocks are worth a collective; by size, as many as are asked for.
TEST(ParamPiecesTest, SmallUnitsStayWhole) {
  const train::testing::Folder folder;
  for (const auto& item : train::testing::model_cases()) {
    SCOPED_TRACE(item.name);
    const auto config = item.config(folder).model;
    for (const auto& name : pieces_of(config).names) EXPECT_THAT(name, HasSubstr("blocks."));
    EXPECT_GT(pieces_of(config, /*min_num_params=*/1).names.size(), pieces_of(config).names.size());
    EXPECT_LT(pieces_of(config, /*min_num_params=*/1).rest, pieces_of(config).rest);
  }
}

TEST(ParamPiecesTest, AUnitThatTheModelHasNotIsNamed) {
  const auto model = models::build_model({train::testing::vit_of({8}, 4)}, at::kMeta);
  try {
    pieces_by_unit(*model, {.units = {{.path = "neck"}}});
    FAIL() << "a unit that is not there was gathered";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gathers 'neck', which is no unit of the model"));
  }
}

}  // namespace
}  // namespace fovea::parallel
