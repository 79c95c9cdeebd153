#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/parse_number.h"
#include "fovea/train/diffusion/sample_grid.h"

namespace fovea::app {
namespace {

constexpr int64_t kMaxColumns = 20;

// A class by name, else by number.
int64_t class_number(const train::Inference& inference, const std::string& word) {
  const auto& names = inference.class_names;
  if (const auto found = std::find(names.begin(), names.end(), word); found != names.end()) {
    return found - names.begin();
  }
  if (const auto number = parse_number<int64_t>(word)) return *number;
  fail<ConfigError>(
      "--class: no class is named '{}'; expected {}", word,
      names.empty() ? std::string("its number") : fmt::format("one of {}", fmt::join(names, ", ")));
}

std::string write_sample(const std::filesystem::path& folder, int64_t number,
                         const at::Tensor& sample, double value_range) {
  const bool is_volume = sample.dim() == 4;
  const auto path = folder / fmt::format("sample_{:05d}.{}", number, is_volume ? "nii.gz" : "png");
  if (is_volume) {
    write_grid_volume(path, sample);
  } else {
    write_png_file(path, train::sample_image(sample, value_range));
  }
  return path.string();
}

}  // namespace

inference::SampleOptions sample_options(const SampleArguments& samples,
                                        const train::Inference& inference) {
  inference::SampleOptions options{.count = samples.count,
                                   .seed = samples.seed,
                                   .steps = samples.steps,
                                   .sampler = samples.sampler,
                                   .guidance = samples.guidance,
                                   .noise_level = samples.noise_level};
  if (!samples.class_name.empty()) options.label = class_number(inference, samples.class_name);
  return options;
}

void predict_samples(const PredictArguments& arguments, const inference::Predictor& predictor) {
  const auto& inference = predictor.loaded();
  const auto& model = *inference.model;
  if (model.takes_patches()) {
    fail<ConfigError>(
        "{}: a model of adaptive patches makes an image along a tree, which only another image "
        "has; give images: fovea predict RUN IMAGE... --noise-level 1",
        arguments.inference.name());
  }
  const auto value_range = inference.config->task.get_if<train::DiffusionConfig>()->value_range;
  const auto [samples, request] = predictor.samples(sample_options(arguments.samples, inference));
  const std::filesystem::path folder = arguments.out.empty() ? "samples" : arguments.out;
  std::filesystem::create_directories(folder);
  for (int64_t i = 0; i < samples.size(0); ++i) {
    const auto path = write_sample(folder, i, samples[i], value_range);
    if (!arguments.json) continue;
    nlohmann::json line = {{"file", path}, {"seed", request.seed}, {"sample", i}};
    if (!request.classes.empty()) {
      line["class"] = inference.class_name(request.classes[static_cast<size_t>(i)]);
    }
    say_as_is("{}\n", json_text(line));
  }
  const auto square = std::ceil(std::sqrt(static_cast<double>(samples.size(0))));
  const auto columns = std::clamp<int64_t>(
      model.num_classes() > 0 && arguments.samples.class_name.empty() ? model.num_classes()
                                                                      : std::llround(square),
      1, kMaxColumns);
  write_png_file(folder / "grid.png", train::sample_grid(samples, columns, value_range));
  if (!arguments.json) {
    say("{}: {} and grid.png ({}, {})\n", folder.string(), counted(samples.size(0), "sample"),
        request.sampler.kind, counted(request.sampler.steps, "step"));
  }
}

}  // namespace fovea::app
