// Every model that a recipe can name, with its task, of images and of volumes, with regular and
// with adaptive patches, small enough for a test. Two of them have a loss of the whole batch.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/transforms/image/resize_to_patches.h"
#include "fovea/train/recipe/config.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_segmentation.h"

namespace fovea::train::testing {

using Folder = data::testing::TempDir;

struct ModelCase {
  const char* name;
  std::function<TrainConfig(const Folder&)> config;
};

inline void set_encoder(models::VitConfig& vit, std::vector<int64_t> img_size, int64_t patch_size) {
  vit.img_size = std::move(img_size);
  vit.patch_size = {patch_size};
  vit.in_chans = 1;
  vit.embed_dim = 24;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.drop_path_rate = 0.1;
  vit.proj_drop_rate = 0.1;
}

// Tokens of the sample's own tree; the values of a sample lie in `range`.
inline void use_adaptive_patches(TrainConfig& config, models::VitConfig& vit, int64_t length,
                                 std::vector<double> range) {
  vit.patching = "adaptive";
  vit.fixed_length = length;
  vit.patch_size = {2};
  vit.pos_embed = "size_and_center";
  config.data.adaptive_patching = data::AdaptivePatchingConfig{
      .fixed_length = length, .patch_size = 2, .criterion = "variance", .smoothing = {0}};
  config.data.adaptive_patching->value_range = std::move(range);
}

inline TrainConfig images_of(const Folder& folder, models::ModelConfig model, TaskConfig task) {
  auto config = tiny_config(folder);
  config.model = std::move(model);
  config.task = std::move(task);
  return config;
}

inline TrainConfig volumes_of(const Folder& folder, models::ModelConfig model, TaskConfig task) {
  auto config = tiny_volume_config(folder);
  config.model = std::move(model);
  config.task = std::move(task);
  return config;
}

inline models::VitConfig vit_of(std::vector<int64_t> img_size, int64_t num_classes) {
  models::VitConfig vit;
  set_encoder(vit, std::move(img_size), 4);
  vit.num_classes = num_classes;
  return vit;
}

inline TrainConfig adaptive_vit(TrainConfig config, std::vector<double> range) {
  auto vit = *config.model.get_if<models::VitConfig>();
  use_adaptive_patches(config, vit, 13, std::move(range));
  config.model = {vit};
  return config;
}

// Images of 2 x 2 to 4 x 4 patches, as many as are drawn for each.
inline TrainConfig packed_vit(TrainConfig config) {
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.patching = "packed";
  vit.patch_size = {2};
  vit.pos_embed = "factorized";
  vit.patch_drop_rate = 0.2;
  config.model = {vit};
  data::ResizeToPatchesConfig resize{.patch_size = 2, .max_patches = 16};
  for (auto* section : {&config.data.val, &config.data.train}) {
    auto& transforms = (*section)->get_if<data::IdxConfig>()->transforms;
    transforms.insert(transforms.begin(), {resize});
    resize.min_patches = 4;  // of the training alone
  }
  return config;
}

inline models::T2tVitConfig tiny_t2t_vit() {
  models::T2tVitConfig config;
  config.img_size = {8};
  config.in_chans = 1;
  config.num_classes = 4;
  config.token_dim = 16;
  config.split_kernels = {3, 3, 3};
  config.split_strides = {2, 1, 1};
  config.split_paddings = {1, 1, 1};
  config.embed_dim = 24;
  config.depth = 2;
  config.num_heads = 2;
  return config;
}

inline models::MaeConfig mae_of(std::vector<int64_t> img_size, int64_t patch_size) {
  models::MaeConfig config;
  set_encoder(config.encoder.vit, std::move(img_size), patch_size);
  config.mask_ratio = 0.5;
  config.decoder_embed_dim = 12;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  return config;
}

inline TrainConfig adaptive_mae(TrainConfig config, std::vector<double> range) {
  auto mae = *config.model.get_if<models::MaeConfig>();
  use_adaptive_patches(config, mae.encoder.vit, 13, std::move(range));
  mae.decoder_pos_embed = "size_and_center";
  config.model = {mae};
  return config;
}

inline models::DiffusionVitConfig denoiser_of(std::vector<int64_t> img_size, int64_t num_classes) {
  models::DiffusionVitConfig config;
  set_encoder(config.encoder.vit, std::move(img_size), 4);
  config.num_classes = num_classes;
  return config;
}

// What it makes needs a tree: no samples are drawn.
inline TrainConfig adaptive_denoiser(TrainConfig config, std::vector<double> range) {
  auto model = *config.model.get_if<models::DiffusionVitConfig>();
  use_adaptive_patches(config, model.encoder.vit, 13, std::move(range));
  config.model = {model};
  DiffusionConfig task;
  task.num_samples = 0;
  config.task = {task};
  return config;
}

inline TaskConfig few_samples() {
  DiffusionConfig task;
  task.num_samples = 2;
  task.sampler.steps = 2;
  return {task};
}

inline models::SapConfig tiny_sap(std::vector<int64_t> img_size) {
  models::SapConfig config;
  set_encoder(config.encoder.vit, std::move(img_size), 2);
  config.num_classes = 3;
  config.decoder_dim = 16;
  return config;
}

// Slices of the volumes, as a model of images takes them.
inline TrainConfig slices_of(TrainConfig config) {
  for (auto* section : {&config.data.train, &config.data.val}) {
    auto set = *(*section)->get_if<data::NiftiConfig>();
    set.transforms.resize(1);  // whole volumes; the tiles choose
    *section = data::DataSectionConfig{set};
  }
  config.data.tiling = data::TilingConfig{.tile_size = {8, 8}, .two_d = true};
  return config;
}

inline TrainConfig sap_of(const Folder& folder, bool is_3d) {
  auto config = tiny_segmentation_config(folder);
  auto sap = tiny_sap(is_3d ? std::vector<int64_t>{8, 8, 8} : std::vector<int64_t>{8});
  use_adaptive_patches(config, sap.encoder.vit, is_3d ? 50 : 13, {-1, 1});
  config.model = {sap};
  if (!is_3d) {
    SegmentationConfig task{.loss = {.name = "ucf_dice_bce"}};
    config.task = {task};
    return slices_of(config);
  }
  return config;
}

inline TrainConfig unetr_2d(const Folder& folder) {
  auto config = tiny_segmentation_config(folder);
  auto unetr = tiny_unetr_config();
  unetr.encoder.vit.img_size = {8};
  config.model = {unetr};
  SegmentationConfig task{.loss = {.include_background = false, .batch = true}};
  config.task = {task};
  return slices_of(config);
}

// Whole volumes are evaluated in windows, each with patches of its own.
inline TrainConfig adaptive_unetr(TrainConfig config, const std::string& map, int64_t length) {
  auto unetr = *config.model.get_if<models::UnetrConfig>();
  unetr.adaptive_map = map;
  use_adaptive_patches(config, unetr.encoder.vit, length, {-1, 1});
  config.model = {unetr};
  return config;
}

inline std::vector<ModelCase> model_cases() {
  const TaskConfig classes = {ClassificationConfig{}}, rebuilt = {MaskedAutoencodingConfig{}};
  const std::vector<double> normalized = {-2.2, 2.7}, scaled = {-1, 1};
  return {
      {"vit_2d", [=](const Folder& f) { return images_of(f, {vit_of({8}, 4)}, classes); }},
      {"vit_3d",
       [=](const Folder& f) {
         return volumes_of(f, {vit_of({8, 8, 8}, 2)}, classes);
       }},
      {"vit_packed",
       [=](const Folder& f) { return packed_vit(images_of(f, {vit_of({8}, 4)}, classes)); }},
      {"vit_adaptive_2d",
       [=](const Folder& f) {
         return adaptive_vit(images_of(f, {vit_of({8}, 4)}, classes), normalized);
       }},
      {"vit_adaptive_3d",
       [=](const Folder& f) {
         return adaptive_vit(volumes_of(f, {vit_of({8, 8, 8}, 2)}, classes), scaled);
       }},
      {"t2t_vit", [=](const Folder& f) { return images_of(f, {tiny_t2t_vit()}, classes); }},
      {"mae_2d", [=](const Folder& f) { return images_of(f, {mae_of({8}, 2)}, rebuilt); }},
      {"mae_3d",
       [=](const Folder& f) {
         return volumes_of(f, {mae_of({8, 8, 8}, 4)}, rebuilt);
       }},
      {"mae_adaptive_2d",
       [=](const Folder& f) {
         return adaptive_mae(images_of(f, {mae_of({8}, 2)}, rebuilt), normalized);
       }},
      {"mae_adaptive_3d",
       [=](const Folder& f) {
         return adaptive_mae(volumes_of(f, {mae_of({8, 8, 8}, 2)}, rebuilt), scaled);
       }},
      {"unetr_2d", unetr_2d},
      {"unetr_3d", tiny_segmentation_config},
      {"unetr_adaptive_2d",
       [](const Folder& f) { return adaptive_unetr(unetr_2d(f), "image", 13); }},
      {"unetr_adaptive_3d",
       [](const Folder& f) { return adaptive_unetr(tiny_segmentation_config(f), "image", 50); }},
      {"unetr_sequence_2d",
       [](const Folder& f) { return adaptive_unetr(unetr_2d(f), "sequence", 16); }},
      {"unetr_sequence_3d",
       [](const Folder& f) { return adaptive_unetr(tiny_segmentation_config(f), "sequence", 8); }},
      {"sap_2d", [](const Folder& f) { return sap_of(f, false); }},
      {"sap_3d", [](const Folder& f) { return sap_of(f, true); }},
      {"diffusion_vit_2d",
       [](const Folder& f) { return images_of(f, {denoiser_of({8}, 4)}, few_samples()); }},
      {"diffusion_vit_3d",
       [](const Folder& f) {
         return volumes_of(f, {denoiser_of({8, 8, 8}, 0)}, few_samples());
       }},
      {"diffusion_adaptive_2d",
       [=](const Folder& f) {
         return adaptive_denoiser(images_of(f, {denoiser_of({8}, 4)}, few_samples()), normalized);
       }},
      {"diffusion_adaptive_3d",
       [=](const Folder& f) {
         return adaptive_denoiser(volumes_of(f, {denoiser_of({8, 8, 8}, 0)}, few_samples()),
                                  scaled);
       }},
  };
}

}  // namespace fovea::train::testing
