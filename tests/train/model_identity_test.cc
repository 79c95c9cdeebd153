#include "fovea/train/recipe/model_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fovea::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

models::ModelConfig vit_of_depth(int64_t depth) {
  models::VitConfig vit;
  vit.img_size = {28};
  vit.patch_size = {4};
  vit.depth = depth;
  return {vit};
}

TEST(ModelIdentityTest, ModelsOfOtherShapesHaveOtherNames) {
  const auto six = model_identity(vit_of_depth(6));
  EXPECT_THAT(six, AllOf(HasSubstr("vit"), HasSubstr("depth=6"), HasSubstr("patch_size")));
  EXPECT_NE(six, model_identity(vit_of_depth(12)));
  EXPECT_EQ(six, model_identity(vit_of_depth(6)));
  auto wide = *vit_of_depth(6).get_if<models::VitConfig>();
  wide.embed_dim = 97 * wide.num_heads;
  EXPECT_NE(six, model_identity({wide}));
}

// A name has a place in a profile, however much the config says; the sum at its end tells.
TEST(ModelIdentityTest, LongNamesEndInASum) {
  auto vit = *vit_of_depth(6).get_if<models::VitConfig>();
  for (int i = 0; i < 20; ++i) vit.variables.push_back("a_channel_" + std::to_string(i));
  const auto one = model_identity({vit});
  vit.variables.back() = "another";
  const auto other = model_identity({vit});
  EXPECT_LE(one.size(), 200U);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace fovea::train
