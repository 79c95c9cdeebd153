// Masks of images and volumes.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/input_pixels.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/data/formats/nifti.h"
#include "fovea/data/input_files.h"
#include "fovea/models/segmenter.h"
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

// Counts of each class, [K].
std::vector<int64_t> voxels_of_classes(const data::LabelMap& mask, int64_t num_classes) {
  std::vector<int64_t> counts(static_cast<size_t>(num_classes), 0);
  for (const auto label : mask.classes) ++counts[static_cast<size_t>(label)];
  return counts;
}

// -> [1, K, sides of sample `index`] float32 on the CPU.
at::Tensor logits_of(const train::Inference& inference,
                     const std::shared_ptr<const data::Dataset>& samples, int64_t index,
                     const std::vector<int64_t>& sides, const std::string& input) {
  const auto batch = inference.prepare(samples, index, 1);
  const auto logits =
      train::segment_whole(*inference.model, batch.tensors, task_of(inference).sliding_window);
  return on_input_pixels(logits.to(at::kCPU, at::kFloat), sides, inference, input);
}

// Slice by slice, or tile by tile of each, as the model was trained.
data::LabelMap mask_of_tiles(const train::Inference& inference,
                             const std::shared_ptr<const data::TiledDataset>& tiles,
                             const std::string& input) {
  const auto tiling = tiles->tiling(0);
  const auto size = tiling.sample_size();
  const std::vector<int64_t> sides = {tiling.tile_size().height, tiling.tile_size().width};
  data::LabelMap mask{size, std::vector<int32_t>(static_cast<size_t>(size.voxels()))};
  const auto rows = size.depth > 1 ? size.depth : size.height;
  const auto choose = [&](int64_t first, int64_t last, std::span<const float> values) {
    const auto row = size.voxels() / rows, count = (last - first) * row;
    const auto num_classes = static_cast<int64_t>(values.size()) / count;
    const auto classes =
        at::from_blob(const_cast<float*>(values.data()), {num_classes, count}, at::kFloat)
            .argmax(0);
    std::copy_n(classes.const_data_ptr<int64_t>(), count, mask.classes.begin() + first * row);
  };
  blend_sample(
      *tiles, 0,
      [&](int64_t tile) { return logits_of(inference, tiles, tile, sides, input).squeeze(0); },
      choose);
  return mask;
}

// Throws ConfigError where the classes are too many for a picture of bytes.
void check_gray_values(const train::Inference& inference) {
  constexpr int64_t kMostGrayValues = 256;
  if (inference.model->num_classes() <= kMostGrayValues) return;
  fail<ConfigError>("{} classes; a PNG mask holds at most {}", inference.model->num_classes(),
                    kMostGrayValues);
}

PredictedMask predict_one(const std::string& input, const fs::path& folder,
                          const train::Inference& inference) {
  const auto samples = inference.open_files({input});
  const bool is_volume = samples->form() == data::SampleForm::kVolume;
  if (!is_volume) check_gray_values(inference);
  // A model of patches has as many of them for any image: it is given what it was trained on.
  const bool gives_patches = models::segmenter_of(*inference.model).gives_patches();
  const auto tiles =
      inference.takes_slices() ? inference.cut(samples, /*whole_slices=*/!gives_patches) : nullptr;
  data::Sample sample;
  PredictedMask predicted{.input = input};
  data::LabelMap mask;
  if (tiles) {
    mask = mask_of_tiles(inference, tiles, input);
    predicted.sides = {mask.size.depth, mask.size.height, mask.size.width};
  } else {
    samples->read(0, sample);
    predicted.sides = sides_of(sample, samples->form());
    mask = train::to_label_map(
        logits_of(inference, samples, 0, predicted.sides, input).argmax(1)[0]);  // [sides]
  }
  predicted.voxels = voxels_of_classes(mask, inference.model->num_classes());
  if (is_volume) {
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
