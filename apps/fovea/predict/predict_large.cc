// Images that do not fit into memory.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/mask_line.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/overview_page.h"
#include "apps/fovea/predict/predict.h"
#include "apps/fovea/progress_counter.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/data/datasets/input_files.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/image/image_header.h"
#include "fovea/data/large_image/mask_writer.h"
#include "fovea/data/large_image/slide.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/files_below.h"
#include "fovea/inference/predict_large_adaptive.h"
#include "fovea/inference/predict_large_windows.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

// Of an image file that memory does not hold, which of its formats TIFF alone is read by region.
// By the header: TIFF files that are not read by region, palettes say, are images like others.
bool is_large_tiff(const std::string& path) {
  const auto size = data::image_file_size(path);
  return size && size->height > data::kMaxImagePixels / size->width && data::is_tiff_file(path);
}

bool is_large(const std::string& input, const LargeArguments& large) {
  return large.is_forced || large.raw.is_given() || large.scale.is_given() ||
         data::is_slide_name(input) || is_large_tiff(input);
}

// What there is to read of an input: itself, or the files below a folder and those of a list.
std::vector<data::ModelInput> large_files(const std::string& input, const LargeArguments& large) {
  const auto ending = lower_ending(input);
  if (ending == ".csv" || ending == ".jsonl") return data::find_input_files({input}, false);
  if (!is_folder(input)) return {{input, fs::path(input).stem().string()}};
  UnreadFiles unread;
  const bool is_raw = large.raw.is_given();
  const auto is_read = [is_raw](const std::string& name) {
    if (is_raw) return lower_ending(name) == ".raw";
    return data::is_image_name(name) || data::is_slide_name(name);
  };
  std::vector<data::ModelInput> files;
  for (const auto& name : list_files_below(input, is_read, unread)) {
    files.push_back(
        {(fs::path(input) / name).string(), fs::path(name).replace_extension().string()});
  }
  const auto* kinds = is_raw ? "raw file (.raw)" : "image and no slide";
  if (files.empty()) {
    fail<DataError>("{}: no {} in it or below it{}", printable(input), kinds,
                    unread.text().empty() ? "" : ": " + unread.text());
  }
  unread.warn(input, is_raw ? ".raw" : "an image or a slide");
  return files;
}

// One image, and what is written of it. base: its files' names without their endings.
class LargePrediction {
 public:
  LargePrediction(const std::string& input, const fs::path& base, const PredictArguments& arguments,
                  const inference::Predictor& predictor)
      : input_(input),
        base_(base.string()),
        as_json_(arguments.json),
        predictor_(predictor),
        image_(open_large_image(input, arguments.large.raw, arguments.large.scale)),
        progress_("predicting " + printable(fs::path(input).filename().string()), as_json_) {
    fs::create_directories(base.parent_path());
  }

  void write() {
    if (predictor_.kind() == inference::Kind::kReconstructions) {
      write_features();
    } else {
      write_mask();
    }
  }

 private:
  const train::Inference& loaded() const { return predictor_.loaded(); }

  void write_mask() {
    const auto size = image_->format().size;
    PredictedMask result{
        .input = input_,
        .files = {base_ + "_mask.tif", base_ + "_overview.png", base_ + "_overview.html"},
        .sides = {size.height, size.width}};
    data::MaskWriter mask(result.files[0],
                          {.size = size, .num_classes = loaded().model->num_classes()});
    if (predictor_.kind() == inference::Kind::kClasses) {
      const auto scores =
          inference::predict_large_classes(loaded(), *image_, mask, progress_.callback());
      result.files.push_back(base_ + "_scores.npy");
      nn::write_tensor_file(result.files.back(), {{"scores", scores}});
    } else if (loaded().model->takes_patches()) {
      inference::predict_large_adaptive(loaded(), *image_, mask, progress_.callback());
    } else {
      inference::predict_large_masks(loaded(), *image_, mask, progress_.callback());
    }
    const auto overview =
        mask.finish(result.files[1], data::shrunk_image(*image_, mask.overview_size()));
    result.voxels = mask.pixels_of_classes();
    write_file_atomic(result.files[2], overview_page(result, overview, loaded()));
    progress_.clear();
    say_mask(result, loaded(), as_json_);
  }

  void write_features() {
    const auto features =
        inference::predict_large_features(loaded(), *image_, progress_.callback());
    const auto file = base_ + "_features.npy";
    nn::write_tensor_file(file, {{"features", features}});
    const auto shape = features.sizes().vec();
    progress_.clear();
    if (as_json_) {
      const nlohmann::ordered_json line = {{"input", input_}, {"files", {file}}, {"shape", shape}};
      say_as_is("{}\n", json_text(line));
    } else {
      say("{} -> {}\n  {} features of {} x {} windows\n", input_, file, shape[2], shape[0],
          shape[1]);
    }
  }

  std::string input_;
  std::string base_;
  bool as_json_;
  const inference::Predictor& predictor_;
  std::unique_ptr<data::RegionSource> image_;
  ProgressCounter progress_;  // of windows or rows
};

}  // namespace

std::vector<data::ModelInput> take_large_inputs(PredictArguments& arguments) {
  std::vector<data::ModelInput> large;
  std::vector<std::string> others;
  for (const auto& input : arguments.inputs) {
    if (!is_large(input, arguments.large)) {
      others.push_back(input);
      continue;
    }
    const auto files = large_files(input, arguments.large);
    large.insert(large.end(), files.begin(), files.end());
  }
  arguments.inputs = std::move(others);
  return large;
}

void predict_large(const PredictArguments& arguments, const std::vector<data::ModelInput>& inputs,
                   const inference::Predictor& predictor) {
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  const fs::path folder = arguments.out.empty() ? "masks" : arguments.out;
  UnreadableInputs unreadable(static_cast<int64_t>(inputs.size()), arguments.json);
  std::set<std::string> taken;
  for (const auto& [path, stem] : inputs) {
    try {
      LargePrediction(path, folder / free_name(stem, taken), arguments, predictor).write();
    } catch (const DataError& error) {
      unreadable.add(path, error);
    }
  }
  unreadable.finish();
}

}  // namespace fovea::app
