// A run small enough for a test: a few hundred 8 x 8 images of four classes that a tiny ViT tells
// apart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/volume/rand_gaussian_noise.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/train/recipe/config.h"
#include "tests/data/support.h"

namespace fovea::train::testing {

// Writes `count` images as IDX files into `folder` under `name`: class c is bright in quarter c,
// over noise that the seed draws.
inline data::DataSectionConfig write_tiny_set(const data::testing::TempDir& folder,
                                              const std::string& name, int64_t count,
                                              uint64_t seed) {
  constexpr int64_t kSide = 8;
  RandomStream random(philox_key(seed, name), 0);
  std::vector<uint8_t> pixels, labels;
  for (int64_t i = 0; i < count; ++i) {
    const auto label = random.below(4);
    labels.push_back(static_cast<uint8_t>(label));
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const bool is_bright =
            (y < kSide / 2) == (label < 2) && (x < kSide / 2) == (label % 2 == 0);
        pixels.push_back(static_cast<uint8_t>(random.below(100) + (is_bright ? 100 : 0)));
      }
    }
  }
  const auto size = static_cast<uint32_t>(count);
  data::IdxConfig config;
  config.images =
      folder.write(name + "-images", data::testing::idx_bytes({size, kSide, kSide}, pixels));
  config.labels = folder.write(name + "-labels", data::testing::idx_bytes({size}, labels));
  config.transforms = {{data::HorizontalFlipConfig{.p = 0}}, {data::NormalizeConfig{}}};
  config.num_classes = 4;
  return {config};
}

// Two blocks of width 32, batches of 24 of 100 images with every drop rate in use, five batches an
// epoch of which the last is smaller.
inline TrainConfig tiny_config(const data::testing::TempDir& folder,
                               const std::string& run = "run") {
  TrainConfig config;
  config.run = {.dir = folder.file(run), .seed = 7};
  config.device = {.type = "cpu", .dtype = "float32", .threads = 1};
  models::VitConfig vit;
  vit.img_size = {8};
  vit.patch_size = {4};
  vit.in_chans = 1;
  vit.num_classes = 4;
  vit.embed_dim = 32;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.proj_drop_rate = 0.1;
  vit.attn_drop_rate = 0.1;
  vit.drop_path_rate = 0.2;
  config.model = {vit};
  config.data.train = write_tiny_set(folder, "train", 100, 1);
  config.data.val = write_tiny_set(folder, "val", 40, 2);
  config.data.global_batch_size = 24;
  config.data.threads = 1;
  config.data.drop_last = false;
  optim::AdamWConfig adamw;
  adamw.lr = 3e-3;
  config.optim = {adamw};
  config.trainer.max_steps = 12;
  config.trainer.max_grad_norm = 1;
  config.checkpoint.every_steps = 4;
  config.log.every_steps = 1;
  return config;
}

// Volumes 8 x 8 x 8 of two classes as NIfTI files: file i is of class i % 2, and class 1 is bright.
inline data::DataSectionConfig write_tiny_volumes(const data::testing::TempDir& folder,
                                                  const std::string& name, int64_t count) {
  constexpr int64_t kSide = 8, kVoxels = kSide * kSide * kSide;
  constexpr data::Affine kAffine = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
  RandomStream random(philox_key(1, name), 0);
  std::string list = "path,label\n";
  for (int64_t i = 0; i < count; ++i) {
    data::Volume volume{1, {kSide, kSide, kSide}, {1, 1, 1}, {}};
    for (int64_t v = 0; v < kVoxels; ++v) {
      const float base = i % 2 == 1 ? 100.0f : 0.0f;
      volume.values.push_back(static_cast<float>(random.below(100)) + base);
    }
    const auto file = fmt::format("{}_{}.nii.gz", name, i);
    data::write_nifti(folder.file(file), volume, kAffine);
    list += fmt::format("{},{}\n", file, i % 2);
  }
  folder.write(name + ".csv", list);
  data::NiftiConfig config;
  config.path = folder.path();
  config.list = name + ".csv";
  config.transforms = {
      {data::RandGaussianNoiseConfig{.prob = 0.5, .std = 5}},
      {data::ScaleIntensityRangeConfig{.a_min = 0, .a_max = 200, .b_min = -1, .b_max = 1}}};
  return {config};
}

inline TrainConfig tiny_volume_config(const data::testing::TempDir& folder) {
  auto config = tiny_config(folder, "volumes");
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.img_size = {8, 8, 8};
  vit.num_classes = 2;
  config.model = {vit};
  config.data.train = write_tiny_volumes(folder, "train", 24);
  config.data.val = write_tiny_volumes(folder, "val", 10);
  config.data.global_batch_size = 8;
  config.trainer.max_steps = 60;
  return config;
}

}  // namespace fovea::train::testing
