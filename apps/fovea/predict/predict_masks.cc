// Masks of images and volumes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/datasets/volume_files.h"
#include "fovea/data/formats/nifti.h"
#include "fovea/data/input_files.h"
#include "fovea/data/inspect/pictures.h"
#include "fovea/data/names.h"
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

// STEM_mask.nii.gz on the voxels of the file; of an array, which has no place in space, on its own.
std::string write_volume_mask(const PredictInputs& inputs, int64_t index,
                              const data::Volume& sample, const data::LabelMap& mask,
                              const fs::path& base, const train::Inference& inference) {
  const auto path = base.string() + "_mask.nii.gz";
  const auto like = inference.data_section();
  const data::NiftiLabelOptions labels{.label_offset = data::label_offset_of(like)};
  if (!inputs.are_files) {
    data::write_nifti(path, mask, data::affine_of_spacing(sample.spacing), labels);
    return path;
  }
  const auto file = data::split_modalities(inputs.at(index).path).front();
  const auto volume = data::open_input_volume(file, like);
  data::write_nifti(path, data::in_stored_order(mask, volume), volume.stored.affine, labels);
  return path;
}

// The three planes through the middle, with the classes in colour.
data::Image planes_of(const data::Volume& volume, const data::LabelMap& mask,
                      const PredictInputs& inputs, int64_t index, data::VolumeAxes like) {
  constexpr int64_t kSide = 256;
  const auto file = data::split_modalities(inputs.at(index).path).front();
  const bool is_nifti = inputs.are_files && data::is_nifti_name(file);
  const auto layout = data::slice_layout(is_nifti ? data::VolumeAxes::kNifti : like);
  return data::volume_picture(volume, 0, mask, layout, kSide);
}

std::vector<std::string> write_masks(const PredictInputs& inputs, int64_t index,
                                     const data::Sample& sample, const data::LabelMap& mask,
                                     const fs::path& base, const train::Inference& inference) {
  fs::create_directories(base.parent_path());
  std::vector<std::string> paths;
  const auto overlay = base.string() + "_overlay.png";
  if (inputs.samples->form() == data::SampleForm::kVolume) {
    paths.push_back(write_volume_mask(inputs, index, sample.volume, mask, base, inference));
    const auto like = inference.data_section();
    const auto axes = like ? data::volume_axes(*like) : data::VolumeAxes::kUnknown;
    write_png_file(overlay, planes_of(sample.volume, mask, inputs, index, axes));
  } else {
    data::Image gray{sample.image.height, sample.image.width, 1, {}};
    for (const auto label : mask.classes) gray.pixels.push_back(static_cast<uint8_t>(label));
    paths.push_back(base.string() + "_mask.png");
    write_png_file(paths.back(), gray);
    write_png_file(overlay, train::tinted(sample.image, mask));
  }
  paths.push_back(overlay);
  return paths;
}

// Throws DataError where the input cannot be read. -> [sides] classes
at::Tensor classes_of(const PredictInputs& inputs, int64_t index, const train::Inference& inference,
                      data::Sample& sample) {
  inputs.samples->read(index, sample);
  const auto batch = inference.prepare(inputs.samples, index, 1);
  const auto logits =
      train::segment_whole(*inference.model, batch.tensors, task_of(inference).sliding_window);
  const auto sides = sides_of(sample, inputs.samples->form());
  return on_input_pixels(logits.to(at::kCPU, at::kFloat), sides, inference, inputs.at(index).path)
      .argmax(1)[0];
}

PredictedMask write_prediction(const PredictInputs& inputs, int64_t index,
                               const data::Sample& sample, const at::Tensor& classes,
                               const fs::path& folder, const train::Inference& inference) {
  PredictedMask predicted{.input = inputs.at(index).path,
                          .sides = sides_of(sample, inputs.samples->form())};
  const auto counts = at::bincount(classes.flatten(), {}, inference.model->num_classes());
  predicted.voxels.assign(counts.const_data_ptr<int64_t>(),
                          counts.const_data_ptr<int64_t>() + counts.numel());
  predicted.files = write_masks(inputs, index, sample, train::to_label_map(classes),
                                folder / inputs.at(index).stem, inference);
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
  const auto all = open_predict_inputs(arguments.inputs, inference);
  check_stems(all);
  const fs::path folder = arguments.out.empty() ? "masks" : arguments.out;
  UnreadableInputs unreadable(count_inputs(all), arguments.json);
  data::Sample sample;
  for (const auto& inputs : all) {
    for (int64_t i = 0; i < inputs.size(); ++i) {
      at::Tensor classes;
      try {
        classes = classes_of(inputs, i, inference, sample);
      } catch (const DataError& error) {
        unreadable.add(inputs.at(i).path, error);
        continue;
      }
      const auto mask = write_prediction(inputs, i, sample, classes, folder, inference);
      if (arguments.json) {
        say_as_is("{}", json_line(mask, inference));
      } else {
        say("{}", text_line(mask, inference));
      }
    }
  }
  unreadable.finish();
}

}  // namespace fovea::app
