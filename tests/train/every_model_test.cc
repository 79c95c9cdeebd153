// What holds for every model that a recipe can name, with its task, of images and of volumes, with
// regular and with adaptive patches: gradients everywhere, a falling loss, exact resumption, a
// report. A model that is missing in the list below fails the first test.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "fovea/core/files.h"
#include "fovea/train/evaluator.h"
#include "fovea/train/session.h"
#include "tests/support/html_checker.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"
#include "tests/train/tiny_segmentation.h"

namespace fovea::train {
namespace {

using Folder = data::testing::TempDir;

struct ModelCase {
  const char* name;
  std::function<TrainConfig(const Folder&)> config;
};

void set_encoder(models::VitConfig& vit, std::vector<int64_t> img_size, int64_t patch_size) {
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
void use_adaptive_patches(TrainConfig& config, models::VitConfig& vit, int64_t length,
                          std::vector<double> range) {
  vit.patching = "adaptive";
  vit.fixed_length = length;
  vit.patch_size = {2};
  vit.pos_embed = "size_and_center";
  config.data.adaptive_patching = data::AdaptivePatchingConfig{
      .fixed_length = length, .patch_size = 2, .criterion = "variance", .smoothing = {0}};
  config.data.adaptive_patching->value_range = std::move(range);
}

TrainConfig images_of(const Folder& folder, models::ModelConfig model, TaskConfig task) {
  auto config = testing::tiny_config(folder);
  config.model = std::move(model);
  config.task = std::move(task);
  return config;
}

TrainConfig volumes_of(const Folder& folder, models::ModelConfig model, TaskConfig task) {
  auto config = testing::tiny_volume_config(folder);
  config.model = std::move(model);
  config.task = std::move(task);
  return config;
}

models::VitConfig vit_of(std::vector<int64_t> img_size, int64_t num_classes) {
  models::VitConfig vit;
  set_encoder(vit, std::move(img_size), 4);
  vit.num_classes = num_classes;
  return vit;
}

TrainConfig adaptive_vit(TrainConfig config, std::vector<double> range) {
  auto vit = *config.model.get_if<models::VitConfig>();
  use_adaptive_patches(config, vit, 13, std::move(range));
  config.model = {vit};
  return config;
}

models::T2tVitConfig tiny_t2t_vit() {
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

models::MaeConfig mae_of(std::vector<int64_t> img_size, int64_t patch_size) {
  models::MaeConfig config;
  set_encoder(config.encoder.vit, std::move(img_size), patch_size);
  config.mask_ratio = 0.5;
  config.decoder_embed_dim = 12;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  return config;
}

TrainConfig adaptive_mae(TrainConfig config, std::vector<double> range) {
  auto mae = *config.model.get_if<models::MaeConfig>();
  use_adaptive_patches(config, mae.encoder.vit, 13, std::move(range));
  mae.decoder_pos_embed = "size_and_center";
  config.model = {mae};
  return config;
}

models::DiffusionVitConfig denoiser_of(std::vector<int64_t> img_size, int64_t num_classes) {
  models::DiffusionVitConfig config;
  set_encoder(config.encoder.vit, std::move(img_size), 4);
  config.num_classes = num_classes;
  return config;
}

TaskConfig few_samples() {
  DiffusionConfig task;
  task.num_samples = 2;
  task.sampler.steps = 2;
  return {task};
}

models::SapConfig tiny_sap(std::vector<int64_t> img_size) {
  models::SapConfig config;
  set_encoder(config.encoder.vit, std::move(img_size), 2);
  config.num_classes = 3;
  config.decoder_dim = 16;
  return config;
}

void crop_for_evaluation(TrainConfig& config) {
  auto val = *config.data.val->get_if<data::NiftiConfig>();
  val.transforms.push_back({data::CenterSpatialCropConfig{.roi_size = {8}}});
  config.data.val = data::DataSectionConfig{val};
}

// Slices of the volumes, as a model of images takes them.
TrainConfig slices_of(TrainConfig config) {
  for (auto* section : {&config.data.train, &config.data.val}) {
    auto set = *(*section)->get_if<data::NiftiConfig>();
    set.transforms.resize(1);  // whole volumes; the tiles choose
    *section = data::DataSectionConfig{set};
  }
  config.data.tiling = data::TilingConfig{.tile_size = {8, 8}, .two_d = true};
  return config;
}

TrainConfig sap_of(const Folder& folder, bool is_3d) {
  auto config = testing::tiny_segmentation_config(folder);
  auto sap = tiny_sap(is_3d ? std::vector<int64_t>{8, 8, 8} : std::vector<int64_t>{8});
  use_adaptive_patches(config, sap.encoder.vit, is_3d ? 50 : 13, {-1, 1});
  config.model = {sap};
  if (!is_3d) return slices_of(config);
  crop_for_evaluation(config);
  return config;
}

TrainConfig unetr_2d(const Folder& folder) {
  auto config = testing::tiny_segmentation_config(folder);
  auto unetr = testing::tiny_unetr_config();
  unetr.encoder.vit.img_size = {8};
  config.model = {unetr};
  SegmentationConfig task;
  config.task = {task};
  return slices_of(config);
}

// Whole volumes are evaluated in windows, each with patches of its own.
TrainConfig adaptive_unetr(TrainConfig config, const std::string& map, int64_t length) {
  auto unetr = *config.model.get_if<models::UnetrConfig>();
  unetr.adaptive_map = map;
  use_adaptive_patches(config, unetr.encoder.vit, length, {-1, 1});
  config.model = {unetr};
  return config;
}

std::vector<ModelCase> model_cases() {
  const TaskConfig classes = {ClassificationConfig{}}, rebuilt = {MaskedAutoencodingConfig{}};
  const std::vector<double> normalized = {-2.2, 2.7}, scaled = {-1, 1};
  return {
      {"vit_2d", [=](const Folder& f) { return images_of(f, {vit_of({8}, 4)}, classes); }},
      {"vit_3d",
       [=](const Folder& f) {
         return volumes_of(f, {vit_of({8, 8, 8}, 2)}, classes);
       }},
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
      {"unetr_3d", testing::tiny_segmentation_config},
      {"unetr_adaptive_2d",
       [](const Folder& f) { return adaptive_unetr(unetr_2d(f), "image", 13); }},
      {"unetr_adaptive_3d",
       [](const Folder& f) {
         return adaptive_unetr(testing::tiny_segmentation_config(f), "image", 50);
       }},
      {"unetr_sequence_2d",
       [](const Folder& f) { return adaptive_unetr(unetr_2d(f), "sequence", 16); }},
      {"unetr_sequence_3d",
       [](const Folder& f) {
         return adaptive_unetr(testing::tiny_segmentation_config(f), "sequence", 27);
       }},
      {"sap_2d", [](const Folder& f) { return sap_of(f, false); }},
      {"sap_3d", [](const Folder& f) { return sap_of(f, true); }},
      {"diffusion_vit_2d",
       [](const Folder& f) { return images_of(f, {denoiser_of({8}, 4)}, few_samples()); }},
      {"diffusion_vit_3d",
       [](const Folder& f) {
         return volumes_of(f, {denoiser_of({8, 8, 8}, 0)}, few_samples());
       }},
  };
}

class EveryModelTest : public ::testing::TestWithParam<ModelCase> {
 protected:
  EveryModelTest() {
    config_.run.dir = folder_.file("run");
    config_.trainer.max_epochs = {};
    config_.trainer.max_steps = 40;
    config_.trainer.eval_every_epochs = 0;  // no best checkpoint in between
    config_.checkpoint.every_steps = 20;
    config_.log.every_steps = 1;
  }

  Folder folder_;
  TrainConfig config_ = GetParam().config(folder_);
};

// Some stay zero in one step: a dropped path, a class that no sample had.
TEST_P(EveryModelTest, GradientsReachEveryParameter) {
  const auto source = open_training_data(config_);
  const auto model = make_model(config_, {});
  const auto task = make_task(config_.task, *model);
  const auto optimizer = make_optimizer(config_, *model);
  std::set<std::string> waiting;
  for (const auto& item : model->named_parameters()) {
    if (item.value().requires_grad()) waiting.insert(item.key());
  }
  ASSERT_FALSE(waiting.empty());
  for (int64_t step = 0; step < 12 && !waiting.empty(); ++step) {
    auto batch = source.loader->next();
    compute_gradients(*model, *task, *optimizer, batch, step, {});
    optimizer->step(1e-3);  // weights that start at zero hold back those behind them
    for (const auto& item : model->named_parameters()) {
      const auto& gradient = item.value().grad();
      if (gradient.defined() && gradient.any().item<bool>()) waiting.erase(item.key());
    }
  }
  EXPECT_TRUE(waiting.empty()) << waiting.size() << " without a gradient, " << *waiting.begin();
}

TEST_P(EveryModelTest, LearnsResumesExactlyAndReports) {
  const auto validation = open_validation_data(config_, {});
  const auto model = make_model(config_, {});
  const auto task = make_task(config_.task, *model);
  const auto before = evaluate(*model, *task, *validation.loader, {})->metrics();
  const auto result = testing::fit(config_);
  EXPECT_LT(result.last_eval.at("loss"), before.at("loss"));

  auto cut = config_;
  cut.run.dir = folder_.file("cut");
  testing::fit(cut);
  testing::go_back_to(cut.run.dir, 20);
  EXPECT_EQ(testing::fit(cut).step, 40);
  testing::expect_same_run(cut.run.dir, config_.run.dir);
  const auto html = read_file(cut.run.dir + "/report.html", 1 << 26);
  EXPECT_EQ(support::check_html(html).fault, "");
}

INSTANTIATE_TEST_SUITE_P(All, EveryModelTest, ::testing::ValuesIn(model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

template <class... Configs>
std::set<std::string> names_of(const OneOf<Configs...>&) {
  return {std::string(Configs::kName)...};
}

TEST(ModelCasesTest, NameEveryModelOfARecipe) {
  const Folder folder;
  std::set<std::string> covered;
  for (const auto& item : model_cases()) {
    covered.insert(std::string(item.config(folder).model.name()));
  }
  EXPECT_EQ(covered, names_of(models::ModelConfig{}));
}

}  // namespace
}  // namespace fovea::train
