// Masks of images and volumes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/data/formats/nifti.h"
#include "fovea/data/input_files.h"
#include "fovea/train/mask_picture.h"
#include "fovea/train/tasks/segmentation.h"

// K classes; sides are H, W or D, H, W.
namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct PredictedMask {
  std::string input;
  std::vector<std::string> files = {};
  std::vector<int64_t> sides = {};
  std::vector<int64_t> voxels = {};  // [K]
};

// "scans/a.nii.gz;scans/a_t2.nii.gz" -> "scans/a.nii.gz": what a mask is named and placed after.
std::string first_file(const std::string& input) { return input.substr(0, input.find(';')); }

// "scans/a.nii.gz" -> "a"
std::string stem_of(const std::string& input) {
  auto path = fs::path(first_file(input));
  if (path.filename().empty()) path = path.parent_path();  // a folder of slices with a slash
  auto stem = path.filename();
  if (stem.extension() == ".gz") stem = stem.stem();
  return is_folder(path) ? stem.string() : stem.stem().string();
}

// Throws ConfigError where two masks would have one name.
void check_stems(const std::vector<std::string>& inputs) {
  std::set<std::string> stems;
  for (const auto& input : inputs) {
    if (stems.insert(stem_of(input)).second) continue;
    fail<ConfigError>(
        "two inputs are named '{}', and so would their masks be; give them one by "
        "one, with folders of their own",
        stem_of(input));
  }
}

train::SegmentationConfig task_of(const train::Inference& inference) {
  const train::SegmentationConfig* found = nullptr;
  if (inference.config) found = inference.config->task.get_if<train::SegmentationConfig>();
  return found != nullptr ? *found : train::SegmentationConfig();
}

std::vector<int64_t> sides_of(const data::Sample& sample, data::SampleForm form) {
  if (form == data::SampleForm::kImage) return {sample.image.height, sample.image.width};
  const auto size = sample.volume.size;
  return {size.depth, size.height, size.width};
}

// Whether the transforms change the size by scaling alone, so that a mask can be scaled back.
bool only_scales(const train::Inference& inference) {
  if (!inference.config || !inference.config->data.val) return false;
  for (const auto& transform : data::transforms_of(*inference.config->data.val)) {
    const auto* resize = transform.get_if<data::ResizeConfig>();
    const bool is_resize = (resize != nullptr && resize->size.size() == 2) ||
                           transform.get_if<data::SpatialResizeConfig>() != nullptr;
    const bool keeps_places = transform.get_if<data::NormalizeConfig>() != nullptr ||
                              transform.get_if<data::NormalizeIntensityConfig>() != nullptr ||
                              transform.get_if<data::ScaleIntensityConfig>() != nullptr ||
                              transform.get_if<data::ScaleIntensityRangeConfig>() != nullptr;
    if (!is_resize && !keeps_places) return false;
  }
  return true;
}

// Logits on the pixels of the input. logits: [1, K, sides of the transformed input]
at::Tensor on_input_pixels(const at::Tensor& logits, const std::vector<int64_t>& sides,
                           const train::Inference& inference, const std::string& input) {
  const auto found = logits.sizes().slice(2);
  if (found == at::IntArrayRef(sides)) return logits;
  if (found.size() != sides.size() || !only_scales(inference)) {
    fail<ConfigError>(
        "{}: the transforms of data.val make it [{}] where it was [{}], so a mask would not lie on "
        "its pixels; expected transforms that keep the size, or scale to one (resize with two "
        "sides, spatial_resize)",
        input, fmt::join(found, ", "), fmt::join(sides, ", "));
  }
  constexpr bool kAlignCorners = false;
  return sides.size() == 3 ? at::upsample_trilinear3d(logits, sides, kAlignCorners)
                           : at::upsample_bilinear2d(logits, sides, kAlignCorners);
}

std::string write_volume_mask(const std::string& input, const data::LabelMap& mask,
                              const fs::path& folder, const train::Inference& inference) {
  const auto path = (folder / (stem_of(input) + "_mask.nii.gz")).string();
  const auto like = inference.data_section();
  const auto volume = data::open_input_volume(first_file(input), like);
  data::write_nifti(path, data::in_stored_order(mask, volume), volume.stored.affine,
                    {.label_offset = data::label_offset_of(like)});
  return path;
}

std::vector<std::string> write_image_masks(const std::string& input, const data::Image& image,
                                           const data::LabelMap& mask, const fs::path& folder) {
  data::Image gray{image.height, image.width, 1, {}};
  for (const auto label : mask.classes) gray.pixels.push_back(static_cast<uint8_t>(label));
  const std::vector<std::string> paths = {(folder / (stem_of(input) + "_mask.png")).string(),
                                          (folder / (stem_of(input) + "_overlay.png")).string()};
  write_png_file(paths[0], gray);
  write_png_file(paths[1], train::tinted(image, mask));
  return paths;
}

PredictedMask predict_one(const std::string& input, const fs::path& folder,
                          const train::Inference& inference) {
  const auto samples = inference.open_files({input});
  data::Sample sample;
  samples->read(0, sample);
  const auto batch = inference.prepare(samples, 0, 1);
  auto logits =
      train::segment_whole(*inference.model, batch.tensors, task_of(inference).sliding_window);
  PredictedMask predicted{.input = input, .sides = sides_of(sample, samples->form())};
  logits = on_input_pixels(logits.to(at::kCPU, at::kFloat), predicted.sides, inference, input);
  const auto classes = logits.argmax(1)[0];  // [sides]
  const auto counts = at::bincount(classes.flatten(), {}, inference.model->num_classes());
  predicted.voxels.assign(counts.const_data_ptr<int64_t>(),
                          counts.const_data_ptr<int64_t>() + counts.numel());
  const auto mask = train::to_label_map(classes);
  if (samples->form() == data::SampleForm::kVolume) {
    predicted.files = {write_volume_mask(input, mask, folder, inference)};
  } else {
    predicted.files = write_image_masks(input, sample.image, mask, folder);
  }
  return predicted;
}

std::string text_line(const PredictedMask& mask, const train::Inference& inference) {
  const auto total = static_cast<double>(c10::multiply_integers(mask.sides));
  auto text = fmt::format("{} -> {}\n ", mask.input, fmt::join(mask.files, ", "));
  for (size_t label = 0; label < mask.voxels.size(); ++label) {
    text +=
        fmt::format(" {} {} ({:.2f} %)", inference.class_name(static_cast<int64_t>(label)),
                    mask.voxels[label], 100.0 * static_cast<double>(mask.voxels[label]) / total);
  }
  return text + "\n";
}

std::string json_line(const PredictedMask& mask, const train::Inference& inference) {
  nlohmann::ordered_json voxels = nlohmann::ordered_json::array();
  for (size_t label = 0; label < mask.voxels.size(); ++label) {
    voxels.push_back({{"class", inference.class_name(static_cast<int64_t>(label))},
                      {"voxels", mask.voxels[label]}});
  }
  const nlohmann::ordered_json line = {{"input", mask.input},
                                       {"files", mask.files},
                                       {"sides", mask.sides},
                                       {"classes", std::move(voxels)}};
  return json_text(line) + "\n";
}

}  // namespace

void predict_masks(const PredictArguments& arguments, const train::Inference& inference) {
  const at::NoGradGuard no_grad;
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  constexpr int64_t kMostGrayValues = 256;
  if (inference.input.spatial_dims == 2 && inference.model->num_classes() > kMostGrayValues) {
    fail<ConfigError>("{} classes; a PNG mask holds at most {}", inference.model->num_classes(),
                      kMostGrayValues);
  }
  check_stems(arguments.inputs);
  const fs::path folder = arguments.out.empty() ? "masks" : arguments.out;
  fs::create_directories(folder);
  for (const auto& input : arguments.inputs) {
    const auto mask = predict_one(input, folder, inference);
    if (arguments.json) {
      say_as_is("{}", json_line(mask, inference));
    } else {
      say("{}", text_line(mask, inference));
    }
  }
}

}  // namespace fovea::app
