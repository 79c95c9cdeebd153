// Masks of images and volumes.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/mask_line.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/data/datasets/input_files.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/files/file_endings.h"
#include "fovea/train/evaluate/mask_picture.h"

// K classes; sides are H, W or D, H, W.
namespace fovea::app {
namespace {

namespace fs = std::filesystem;

// BASE_mask.nii.gz on the voxels of the file; of an array, which has no place in space, on its own.
std::string write_volume_mask(const std::string& file, const data::Volume& sample,
                              const data::LabelMap& mask, const fs::path& base,
                              const train::Inference& inference) {
  const auto path = base.string() + "_mask.nii.gz";
  const auto like = inference.data_section();
  const data::NiftiLabelOptions labels{.label_offset = data::label_offset_of(like)};
  if (file.empty()) {
    data::write_nifti(path, mask, data::affine_of_spacing(sample.spacing), labels);
    return path;
  }
  const auto volume = data::open_input_volume(file, like);
  data::write_nifti(path, data::in_stored_order(mask, volume), volume.stored.affine, labels);
  return path;
}

// The three planes through the middle, with the classes in colour.
data::Image planes_of(const std::string& file, const data::Volume& volume,
                      const data::LabelMap& mask, const train::Inference& inference) {
  constexpr int64_t kSide = 256;
  const auto like = inference.data_section();
  auto axes = like ? (*like)->volume_axes() : data::VolumeAxes::kUnknown;
  if (is_scan_name(file)) axes = data::VolumeAxes::kXyz;
  return data::volume_picture(volume, 0, mask, data::slice_layout(axes), kSide);
}

// file: see PredictInputs::file. -> the paths
std::vector<std::string> write_masks(const std::string& file, const data::Sample& sample,
                                     const data::LabelMap& mask, const fs::path& base,
                                     const train::Inference& inference) {
  fs::create_directories(base.parent_path());
  std::vector<std::string> paths;
  const auto overlay = base.string() + "_overlay.png";
  if (sample.is<data::Volume>()) {
    paths.push_back(write_volume_mask(file, sample.volume(), mask, base, inference));
    write_png_file(overlay, planes_of(file, sample.volume(), mask, inference));
  } else {
    const data::Image& image = sample.image();
    data::Image gray{image.height, image.width, 1, {}};
    for (const auto label : mask.classes) gray.pixels.push_back(static_cast<uint8_t>(label));
    paths.push_back(base.string() + "_mask.png");
    write_png_file(paths.back(), gray);
    write_png_file(overlay, train::tinted(image, mask));
  }
  paths.push_back(overlay);
  return paths;
}

// Throws ConfigError where the classes are too many for a picture of bytes.
void check_gray_values(const train::Inference& inference) {
  constexpr int64_t kMostGrayValues = 256;
  if (inference.model->num_classes() <= kMostGrayValues) return;
  fail<ConfigError>("{} classes; a PNG mask holds at most {}", inference.model->num_classes(),
                    kMostGrayValues);
}

PredictedMask predict_one(const PredictInputs& inputs, int64_t index, const fs::path& folder,
                          const inference::Predictor& predictor) {
  if (inputs.samples->form() == data::SampleForm::kImage) check_gray_values(predictor.loaded());
  const auto mask = predictor.masks(inputs.given(index)).front().get();
  return {.input = inputs.at(index).path,
          .files = write_masks(inputs.file(index), mask.sample, mask.classes,
                               folder / inputs.at(index).stem, predictor.loaded()),
          .sides = mask.sides,
          .voxels = mask.voxels};
}

}  // namespace

void predict_masks(const PredictArguments& arguments, const inference::Predictor& predictor) {
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  const auto all = open_predict_inputs(arguments.inputs, predictor.loaded());
  check_stems(all);
  const fs::path folder = arguments.out.empty() ? "masks" : arguments.out;
  for_each_input(all, arguments.json, [&](const PredictInputs& inputs, int64_t i) {
    say_mask(predict_one(inputs, i, folder, predictor), predictor.loaded(), arguments.json);
  });
}

}  // namespace fovea::app
