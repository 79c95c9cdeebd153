// A tiny run that packs images of mixed sizes and aspect ratios.
#pragma once

#include <string>

#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/resize_to_patches.h"
#include "fovea/data/transforms/image/solarize.h"
#include "tests/data/mixed_sizes.h"
#include "tests/train/tiny_run.h"

namespace fovea::train::testing {

// Patches of 4, at most 20 an image; in training the limit is drawn. Every drop rate is in use.
inline TrainConfig mixed_sizes_config(const data::testing::TempDir& folder,
                                      const std::string& run = "run") {
  auto config = tiny_config(folder, run);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.patching = "packed";
  vit.img_size = {16};
  vit.num_classes = 2;
  vit.pos_embed = "factorized";
  vit.global_pool = "map";
  vit.class_token = false;
  vit.patch_drop_rate = 0.25;
  config.model = {vit};
  data::ResizeToPatchesConfig resize{.patch_size = 4, .max_patches = 20};
  auto val = data::testing::write_mixed_sizes(folder, "val", 30, 2);
  val.transforms = {{resize}, {data::NormalizeConfig{}}};
  auto train = data::testing::write_mixed_sizes(folder, "train", 60, 1);
  resize.min_patches = 6;
  train.transforms = {{resize}, {data::SolarizeConfig{.p = 0.1}}, {data::NormalizeConfig{}}};
  config.data.train = data::DataSectionConfig{train};
  config.data.val = data::DataSectionConfig{val};
  config.data.global_batch_size = 14;  // the last batch of an epoch is smaller
  config.trainer.max_steps = 80;
  return config;
}

}  // namespace fovea::train::testing
