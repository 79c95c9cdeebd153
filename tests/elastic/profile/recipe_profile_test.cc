#include "fovea/elastic/profile/recipe_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/parallel/ddp.h"
#include "fovea/parallel/mesh.h"
#include "fovea/train/bench/machine.h"
#include "fovea/train/recipe/model_identity.h"
#include "fovea/train/session.h"
#include "fovea/train/state/mesh_state.h"
#include "tests/parallel/run_ranks.h"
#include "tests/support/temp_dir.h"
#include "tests/train/tiny_run.h"

namespace fovea::elastic {
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

TEST(RecipeProfileTest, AFingerprintIsOfTheKindAlone) {
  const auto one = train::fingerprint_of(at::kCPU, 1), two = train::fingerprint_of(at::kCPU, 2);
  EXPECT_THAT(one, AllOf(HasSubstr(", 1 thread,"), HasSubstr("GiB")));
  EXPECT_THAT(two, HasSubstr(", 2 threads,"));
  EXPECT_EQ(one, train::fingerprint_of(at::kCPU, 1));
  EXPECT_GT(device_memory_bytes(at::kCPU), 0);
}

// Those of the reducer of two processes.
TEST(RecipeProfileTest, BucketsAreTheReducersOwn) {
  const data::testing::TempDir folder;
  auto config = train::testing::tiny_config(folder);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.embed_dim = 256;
  vit.depth = 10;
  config.model = {vit};
  const auto megabytes = bucket_megabytes(config);
  EXPECT_EQ(megabytes.size(), 3U);
  parallel::testing::run_ranks(2, [&](parallel::World& world) {
    const parallel::DeviceMesh mesh(world, parallel::MeshShape{.sizes = {2, 1, 1, 1}});
    const train::MeshState state(config, mesh, train::step_options(config));
    const auto* reducer = dynamic_cast<parallel::GradientReducer*>(state.reducer.get());
    ASSERT_NE(reducer, nullptr);
    const auto ranges = reducer->buckets();
    ASSERT_EQ(ranges.size(), megabytes.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(static_cast<double>(4 * (ranges[i].end - ranges[i].begin)) / (1 << 20),
                megabytes[i]);
    }
  });
}

std::string refusal_of(const std::string& recipe, const ProfileSet& profiles) {
  try {
    check_profiles_of_recipe(recipe, profiles);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(RecipeProfileTest, ProfilesAreOfTheRecipesModelAndDtype) {
  const support::TempDir dir;
  const auto recipe = dir.write(
      "r.yaml",
      std::string("run: {dir: runs/x}\nelastic: {profile_dir: profiles}\ndevice: {dtype: float32}\n"
                  "model: {name: vit, img_size: 28, patch_size: 4, depth: 6}\n"));
  ProfileSet profiles{.source = "profiles", .model = train::model_identity(vit_of_depth(6))};
  profiles.devices = {{.fingerprint = "cpu", .model = profiles.model, .dtype = "float32"}};
  EXPECT_EQ(refusal_of(recipe, profiles), "");
  profiles.devices[0].dtype = "bfloat16";
  EXPECT_THAT(refusal_of(recipe, profiles),
              AllOf(HasSubstr("r.yaml:3"), HasSubstr("device.dtype"), HasSubstr("bfloat16")));
  profiles.model = train::model_identity(vit_of_depth(12));
  EXPECT_THAT(refusal_of(recipe, profiles),
              AllOf(HasSubstr("r.yaml:4"), HasSubstr("model"), HasSubstr("depth=6")));
  const auto jabas = dir.write("j.json", std::string("{\"profile_dir\": \"profiles\"}"));
  EXPECT_EQ(refusal_of(jabas, profiles), "");
}

}  // namespace
}  // namespace fovea::elastic
