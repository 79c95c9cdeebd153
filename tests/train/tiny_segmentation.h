// A segmentation run small enough for a test: volumes in which a bright box stands for class 1 and
// a dark one for class 2.
#pragma once

#include <algorithm>
#include <string>

#include "fovea/core/philox.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/transforms/volume/rand_spatial_crop.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/train/recipe/config.h"
#include "tests/data/support.h"

namespace fovea::train::testing {

// Writes `count` volumes with their masks into folder/name/{images,labels}.
inline data::NiftiConfig write_boxes(const data::testing::TempDir& folder, const std::string& name,
                                     int64_t count, data::VolumeSize size) {
  constexpr data::Affine kBoxAffine = {{{2, 0, 0, -5}, {0, 1, 0, 3}, {0, 0, 1.5, 7}}};
  RandomStream random(philox_key(5, name), 0);
  for (int64_t i = 0; i < count; ++i) {
    data::Volume volume{1, size, {2, 1, 1.5}, {}};
    data::LabelMap labels{size, {}};
    const auto shift = static_cast<int64_t>(random.below(3));
    for (int64_t d = 0; d < size.depth; ++d) {
      for (int64_t h = 0; h < size.height; ++h) {
        for (int64_t w = 0; w < size.width; ++w) {
          const bool is_box = h >= 1 + shift && h < 5 + shift && d >= 1 && d + 1 < size.depth;
          const int32_t label = !is_box ? 0 : (w < size.width / 2 ? 1 : 2);
          const float base = label == 1 ? 200.0f : (label == 2 ? 0.0f : 100.0f);
          labels.classes.push_back(label);
          volume.values.push_back(base + static_cast<float>(random.below(30)));
        }
      }
    }
    const auto file = fmt::format("{}.nii.gz", i);
    data::write_nifti(folder.file(name + "/images/" + file), volume, kBoxAffine);
    data::write_nifti(folder.file(name + "/labels/" + file), labels, kBoxAffine);
  }
  data::NiftiConfig config;
  config.path = folder.file(name);
  config.images = {"images/*.nii.gz"};
  config.masks = "labels/*.nii.gz";
  config.num_classes = 3;
  config.class_names = {"nothing", "bright", "dark"};
  config.transforms = {
      {data::ScaleIntensityRangeConfig{.a_min = 0, .a_max = 230, .b_min = -1, .b_max = 1}}};
  return config;
}

inline models::UnetrConfig tiny_unetr_config() {
  models::UnetrConfig config;
  config.encoder.vit.img_size = {8, 8, 8};
  config.encoder.vit.patch_size = {4};
  config.encoder.vit.in_chans = 1;
  config.encoder.vit.class_token = false;
  config.encoder.vit.embed_dim = 16;
  config.encoder.vit.depth = 4;
  config.encoder.vit.num_heads = 2;
  config.num_classes = 3;
  config.feature_size = 4;
  return config;
}

// Trained on crops of 8 x 8 x 8, evaluated on whole volumes of 10 x 9 x 12.
inline TrainConfig tiny_segmentation_config(const data::testing::TempDir& folder) {
  TrainConfig config;
  config.run = {.dir = folder.file("run"), .seed = 7};
  config.device = {.type = "cpu", .dtype = "float32", .threads = 1};
  config.model = {tiny_unetr_config()};
  config.task = {SegmentationConfig{.hd95 = true, .spacing = {2, 1, 1.5}}};
  auto train = write_boxes(folder, "train", 8, {10, 9, 12});
  train.transforms.push_back({data::RandSpatialCropConfig{.roi_size = {8}}});
  config.data.train = data::DataSectionConfig{train};
  config.data.val = data::DataSectionConfig{write_boxes(folder, "val", 3, {10, 9, 12})};
  config.data.global_batch_size = 4;
  config.data.threads = 1;
  optim::AdamWConfig adamw;
  adamw.lr = 5e-3;
  config.optim = {adamw};
  config.trainer.max_steps = 40;
  config.checkpoint.every_steps = 100;
  config.log.every_steps = 10;
  return config;
}

}  // namespace fovea::train::testing
