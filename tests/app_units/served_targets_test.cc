#include "apps/fovea/served_targets.h"

#include <gmock/gmock.h>

#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea::app {
namespace {

TEST(ServedTargetsTest, NamesModelsByTheirTargets) {
  const support::TempDir folder;
  const auto run = folder.file("runs/my flowers/config.yaml");  // makes the folder
  const auto directory = run.substr(0, run.rfind('/'));
  EXPECT_EQ(served_target(directory).name, "my_flowers");
  EXPECT_EQ(served_target(directory + "/").name, "my_flowers");
  EXPECT_EQ(served_target("vit_small_patch16_224").name, "vit_small_patch16_224");
  EXPECT_EQ(served_target("some/model.safetensors").name, "model");
  EXPECT_EQ(served_target("hf-hub:timm/vit_small_patch16_224.augreg_in21k@v1").name,
            "vit_small_patch16_224.augreg_in21k");
}

TEST(ServedTargetsTest, TakesANameBehindTheLastEqualsSign) {
  const auto target = served_target("runs/lr=3=flowers");
  EXPECT_EQ(target.target, "runs/lr=3");
  EXPECT_EQ(target.name, "flowers");
  const support::TempDir folder;
  const auto file = folder.write("lr=3", std::string("x"));
  EXPECT_EQ(served_target(file).target, file);  // of that very name
  EXPECT_EQ(served_target(file).name, "lr_3");
  for (const auto* const wrong : {"runs/a=", "runs/a=b/c", "=b", "runs/a=b c"}) {
    EXPECT_THROW(served_target(wrong), ConfigError) << wrong;
  }
}

}  // namespace
}  // namespace fovea::app
