#include "apps/fovea/predict/inputs.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "apps/fovea/output.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/find_datasets.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/datasets/volume_files.h"

namespace fovea::app {
namespace {

bool wants_volumes(const train::Inference& inference) {
  const auto like = inference.data_section();
  return inference.input.spatial_dims == 3 ||
         !std::holds_alternative<std::shared_ptr<const data::TransformPipeline>>(
             inference.transforms) ||
         (like && (*like)->volume_axes() != data::VolumeAxes::kUnknown);
}

// The data sets of an argument that are no files of their own; empty: it is files.
std::vector<data::FoundDataset> data_sets_of(const std::string& argument) {
  const bool is_tars = argument.ends_with(".tar");  // also names with braces
  const auto ending = std::filesystem::path(argument).extension();
  const bool is_arrays = ending == ".npz" || ending == ".h5" || ending == ".hdf5";
  if (!is_tars && !is_arrays && !is_folder(argument)) return {};
  auto found = data::find_datasets(argument);
  const auto is_of_files = [](const data::FoundDataset& one) {
    const auto& config = one.config;
    return config.get_if<data::FolderConfig>() != nullptr ||
           config.get_if<data::NiftiConfig>() != nullptr ||
           config.get_if<data::NrrdConfig>() != nullptr ||
           config.get_if<data::MetaImageConfig>() != nullptr ||
           config.get_if<data::DicomConfig>() != nullptr;
  };
  if (std::all_of(found.begin(), found.end(), is_of_files)) return {};
  return found;
}

PredictInputs of_data_set(const data::FoundDataset& found) {
  PredictInputs set{.inputs = {}, .samples = data::build_dataset(found.config), .are_files = false};
  for (int64_t i = 0; i < set.samples->size(); ++i) {
    const auto number = fmt::format("{:06}", i);
    set.inputs.push_back(
        {set.samples->describe(i), found.name.empty() ? number : found.name + "/" + number});
  }
  return set;
}

PredictInputs of_files(const std::vector<std::string>& arguments,
                       const train::Inference& inference) {
  PredictInputs files;
  files.inputs = data::find_input_files(arguments, wants_volumes(inference));
  std::vector<std::string> paths;
  for (const auto& input : files.inputs) paths.push_back(input.path);
  files.samples = inference.open_files(paths);
  return files;
}

}  // namespace

std::vector<inference::Input> PredictInputs::given(int64_t i, int64_t count) const {
  std::vector<inference::Input> all;
  for (int64_t k = i; k < i + count; ++k) {
    all.push_back({inference::SampleInput{samples, k, at(k).path}});
  }
  return all;
}

std::string PredictInputs::file(int64_t i) const {
  return are_files ? data::split_modalities(at(i).path).front() : std::string();
}

std::vector<PredictInputs> open_predict_inputs(const std::vector<std::string>& arguments,
                                               const train::Inference& inference) {
  std::vector<PredictInputs> all;
  std::vector<std::string> files;
  const auto add_files = [&] {
    if (!files.empty()) all.push_back(of_files(files, inference));
    files.clear();
  };
  for (const auto& argument : arguments) {
    const auto sets = data_sets_of(argument);
    if (sets.empty()) {
      files.push_back(argument);
      continue;
    }
    add_files();  // in the order in which they are named
    for (const auto& set : sets) all.push_back(of_data_set(set));
  }
  add_files();
  return all;
}

void check_stems(const std::vector<PredictInputs>& all) {
  std::map<std::string, std::string> taken;  // by stem
  for (const auto& part : all) {
    for (const auto& [path, stem] : part.inputs) {
      const auto [first, is_free] = taken.emplace(stem, path);
      if (is_free) continue;
      fail<ConfigError>(
          "two inputs are named '{}', and so would be what is written for them: {} and {}; give "
          "them one by one, with folders of their own",
          stem, first->second, path);
    }
  }
}

int64_t count_inputs(const std::vector<PredictInputs>& all) {
  int64_t count = 0;
  for (const auto& part : all) count += part.size();
  return count;
}

void for_each_input(const std::vector<PredictInputs>& all, bool as_json,
                    const std::function<void(const PredictInputs& inputs, int64_t i)>& predict) {
  UnreadableInputs unreadable(count_inputs(all), as_json);
  for (const auto& inputs : all) {
    for (int64_t i = 0; i < inputs.size(); ++i) {
      try {
        predict(inputs, i);
      } catch (const DataError& error) {
        unreadable.add(inputs.at(i).path, error);
      }
    }
  }
  unreadable.finish();
}

std::string UnreadableInputs::add(const std::string& input, const DataError& error) {
  if (total_ == 1) throw error;
  ++count_;
  tell("cannot be read: {}\n", error.what());
  auto line = json_text(nlohmann::ordered_json{{"input", input}, {"error", error.what()}}) + "\n";
  if (as_json_) say_as_is("{}", line);
  return line;
}

void UnreadableInputs::finish() const {
  if (count_ == 0) return;
  if (count_ == total_) fail<DataError>("none of the {} inputs can be read; see above", total_);
  fail<DataError>("{} of {} inputs cannot be read; they are named above, the others are predicted",
                  count_, total_);
}

}  // namespace fovea::app
