#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/train/diffusion/sample_grid.h"
#include "fovea/train/diffusion/sampler.h"

namespace fovea::app {
namespace {

constexpr int64_t kMaxColumns = 20;

// A class by name, else by number.
int64_t class_number(const train::Inference& inference, const std::string& word) {
  const auto& names = inference.class_names;
  if (const auto found = std::find(names.begin(), names.end(), word); found != names.end()) {
    return found - names.begin();
  }
  int64_t number = -1;
  const auto* end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number);
  if (error == std::errc() && rest == end) return number;
  fail<ConfigError>(
      "--class: no class is named '{}'; expected {}", word,
      names.empty() ? std::string("its number") : fmt::format("one of {}", fmt::join(names, ", ")));
}

// Empty where the model knows no classes and none was asked for.
std::vector<int64_t> classes_of(const SampleArguments& samples, const train::Inference& inference,
                                int64_t count, bool all_classes) {
  const auto num_classes = all_classes ? inference.model->num_classes() : 0;
  std::vector<int64_t> classes;
  if (num_classes == 0 && samples.class_name.empty()) return classes;
  for (int64_t i = 0; i < count; ++i) {
    classes.push_back(samples.class_name.empty() ? i % num_classes
                                                 : class_number(inference, samples.class_name));
  }
  return classes;
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

train::SampleRequest sample_request(const SampleArguments& samples,
                                    const train::Inference& inference,
                                    const train::DiffusionConfig& task, int64_t count,
                                    bool all_classes) {
  train::SampleRequest request{.count = count,
                               .seed = samples.seed,
                               .classes = classes_of(samples, inference, count, all_classes),
                               .value_range = task.value_range,
                               .sampler = task.sampler};
  if (samples.sampler) request.sampler.kind = *samples.sampler;
  // As many as training had, unless asked for fewer: ancestral sampling needs them.
  const bool is_other = samples.sampler && *samples.sampler != task.sampler.kind;
  if (is_other && *samples.sampler == "ddpm") request.sampler.steps = task.num_time_steps;
  if (samples.steps) request.sampler.steps = *samples.steps;
  if (request.classes.empty()) request.sampler.guidance = 1;  // there is nothing to guide to
  if (samples.guidance) request.sampler.guidance = *samples.guidance;
  return request;
}

void predict_samples(const PredictArguments& arguments, const train::Inference& inference) {
  if (inference.model->takes_patches()) {
    fail<ConfigError>(
        "{}: a model of adaptive patches makes an image along a tree, which only another image "
        "has; give images: fovea predict RUN IMAGE... --noise-level 1",
        arguments.inference.name());
  }
  const auto& task = *inference.config->task.get_if<train::DiffusionConfig>();
  auto& model = dynamic_cast<models::DiffusionVit&>(*inference.model);
  const auto request = sample_request(arguments.samples, inference, task, arguments.samples.count,
                                      /*all_classes=*/true);
  const auto options =
      at::TensorOptions().device(inference.compute.device).dtype(inference.compute.dtype);
  const auto samples =
      train::draw_samples(model, train::NoiseSchedule(task.schedule_options()),
                          train::prediction_type_from_name(task.prediction), request, options);
  const std::filesystem::path folder = arguments.out.empty() ? "samples" : arguments.out;
  std::filesystem::create_directories(folder);
  for (int64_t i = 0; i < samples.size(0); ++i) {
    const auto path = write_sample(folder, i, samples[i], task.value_range);
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
  write_png_file(folder / "grid.png", train::sample_grid(samples, columns, task.value_range));
  if (!arguments.json) {
    say("{}: {} and grid.png ({}, {})\n", folder.string(), counted(samples.size(0), "sample"),
        request.sampler.kind, counted(request.sampler.steps, "step"));
  }
}

}  // namespace fovea::app
