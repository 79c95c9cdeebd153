// fovea bench data RECIPE|DATA [a.b=c ...]
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/bench.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/progress_line.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/volume/scale_intensity.h"
#include "fovea/data/transforms/volume/spatial_resize.h"
#include "fovea/data_tools/data_bench.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

struct DataBenchArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string section = "train";
  data::DataBenchOptions options = {};
  bool is_uint8 = false;
  bool json = false;
};

// What a data set without a recipe is measured with: timm's training crop, volumes to one size.
std::vector<data::AnyTransformConfig> usual_transforms(data::SampleForm form) {
  if (form == data::SampleForm::kVolume) {
    data::SpatialResizeConfig resize;
    resize.spatial_size = {96};
    return {{resize}, {data::ScaleIntensityConfig{}}};
  }
  return {
      {data::RandomResizedCropConfig{}}, {data::HorizontalFlipConfig{}}, {data::NormalizeConfig{}}};
}

data::LoaderSetup open_found_setup(const DataBenchArguments& arguments) {
  for (const auto& [name, config] : chosen_datasets(arguments.recipe, arguments.overrides)) {
    if (!name.empty() && name != arguments.section) continue;
    const auto dataset = data::build_dataset(config);
    data::Sample sample;
    read_decoded(*dataset, 0, sample);
    const bool is_volume = dataset->form() == data::SampleForm::kVolume;
    data::InputForm input{.spatial_dims = is_volume ? 3 : 2};
    if (is_volume) input.in_chans = sample.channels();
    auto chosen = config;
    chosen->transforms() = usual_transforms(dataset->form());
    if (!arguments.json) {
      say("{}: no recipe; measured with {}\n", arguments.recipe,
          is_volume ? "volumes scaled to 96 x 96 x 96"
                    : "random crops of 224 x 224, flips and normalize");
    }
    return data::open_loader_setup({}, chosen, input, /*is_training=*/true);
  }
  fail<ConfigError>("{}: holds no set named {}; choose another with --section", arguments.recipe,
                    arguments.section);
}

data::LoaderSetup open_chosen_setup(const DataBenchArguments& arguments) {
  if (!is_data_recipe(arguments.recipe)) return open_found_setup(arguments);
  const auto config = load_config<train::TrainConfig>(arguments.recipe, arguments.overrides);
  const bool is_training = arguments.section == "train";
  const auto& section = is_training ? config.data.train : config.data.val;
  if (!section || arguments.section == "test") {
    fail<ConfigError>("{}: data.{} is not set, so there is nothing to measure", arguments.recipe,
                      arguments.section);
  }
  return data::open_loader_setup(config.data, *section, train::input_form_of(config.model),
                                 is_training);
}

void print_data_bench(const data::DataBenchResult& result) {
  const bool is_decode = result.limit == data::MachineLimit::kFullDecode;
  say("{}: {}, batch {}, {} thread{}\n", result.name, result.dtype, result.batch_size,
      result.threads, result.threads > 1 ? "s" : "");
  say("  {:.0f} img/s (median of {}; {:.0f} to {:.0f})   {:.3f} ms of processor time a sample\n",
      result.images_per_second, result.rounds, result.images_per_second_min,
      result.images_per_second_max, result.cpu_ms);
  std::string stages;
  for (size_t i = 0; i < data::kNumStages; ++i) {
    stages += fmt::format("   {} {:.3f}", data::kStageNames[i], result.stage_ms[i]);
  }
  say("  ms a sample:{}\n", stages);
  say("  {:.0f} % of {}: {:.0f} img/s ({:.0f} % by processor time)\n", 100 * result.limit_share,
      is_decode ? "plain full decoding into reused buffers" : "the memory's bandwidth",
      result.limit_images_per_second, 100 * result.limit_cpu_share);
}

void run_bench_data(DataBenchArguments& arguments) {
  auto& options = arguments.options;
  options.name = std::filesystem::path(arguments.recipe).stem().string();
  if (arguments.is_uint8) options.pixel_type = data::PixelType::kUint8;
  const auto setup = open_chosen_setup(arguments);
  ProgressLine progress(arguments.json ? ProgressLine::Mode::kSilent : ProgressLine::Mode::kAuto);
  options.progress = [&](const std::string& what) { progress.update("bench: " + what); };
  const auto results = data::bench_data(setup, options);
  progress.clear();
  for (const auto& result : results) {
    if (arguments.json) {
      say_as_is("{}\n", result.to_json());
    } else {
      print_data_bench(result);
    }
  }
}

}  // namespace

void add_bench_data(Command group) {
  auto command = group.add_command(
      "data",
      "Images a second through the loader of a recipe, time of each stage, share of what the "
      "machine can do");
  auto arguments = std::make_shared<DataBenchArguments>();
  auto& options = arguments->options;
  command.add_option("source", arguments->recipe, kDataSourceHelp)
      .required()
      .type_name("RECIPE|DATA");
  add_overrides(command, arguments->overrides, "data.train.path=photos");
  command.add_option("--section", arguments->section, "which data set, where there are several")
      .one_of({"train", "val", "test"})
      .show_default();
  command.add_option("--threads", options.threads, "loader threads; several, to compare: 1,2")
      .delimiter(',')
      .one_word()
      .in_range(1, 1024)
      .show_default();
  command.add_option("--rounds", options.rounds, "windows of each, by turns")
      .in_range(1, 1 << 20)
      .show_default();
  command
      .add_option("--seconds", options.seconds,
                  "length of a window, which a slow set does not exceed either")
      .positive()
      .show_default();
  command
      .add_option("--batch-size", options.batch_size,
                  "images of a batch, at most: slow ones are measured in smaller ones")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_flag("--uint8", arguments->is_uint8,
                   "batches of bytes, for a device that normalises");
  command.add_flag("--json", arguments->json,
                   "print one JSON object for each result and nothing else");
  command.examples(
      {"fovea bench data recipes/fashion_mnist/vit.yaml",
       "fovea bench data recipes/fashion_mnist/vit.yaml --section val --threads 1,2,4"});
  command.callback([arguments] { run_bench_data(*arguments); });
}

}  // namespace fovea::app
