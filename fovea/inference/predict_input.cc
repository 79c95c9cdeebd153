#include "fovea/inference/predict_input.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/data/dataset_views.h"
#include "fovea/inference/ready_input.h"
#include "fovea/inference/volume_in_memory.h"

namespace fovea::inference {
namespace {

constexpr const char* kForms[] = {"file", "image in memory", "sample of a data set", "tensor",
                                  "prepared input"};

// Image files in memory, decoded as those on disk are.
class EncodedImages : public data::Dataset {
 public:
  explicit EncodedImages(std::vector<EncodedInput> images) : images_(std::move(images)) {}

  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  void read(int64_t index, data::Sample& sample) const override {
    auto& encoded = sample.become<data::EncodedImage>();
    encoded.bytes = at(index).bytes;
    if (encoded.bytes.empty()) fail<DataError>("{}: no bytes", at(index).name);
    sample.label = -1;
  }
  const std::vector<std::string>& class_names() const override { return no_names_; }
  int64_t num_classes() const override { return 0; }
  std::string describe(int64_t index) const override { return at(index).name; }

 private:
  const EncodedInput& at(int64_t index) const { return images_[static_cast<size_t>(index)]; }

  std::vector<EncodedInput> images_;
  std::vector<std::string> no_names_;
};

void check_one_form(const std::vector<Input>& inputs) {
  if (inputs.empty()) {
    fail<ConfigError>("no inputs; expected at least one file, image in memory, sample or tensor");
  }
  const auto& first = inputs.front();
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].content.index() != first.content.index()) {
      fail<ConfigError>(
          "input {} is a {}, but input 0 is a {}; expected inputs of one form: ask about the "
          "others in a call of their own",
          i, kForms[inputs[i].content.index()], kForms[first.content.index()]);
    }
    if (inputs[i].channels != first.channels) {
      fail<ConfigError>(
          "input {} has the channels [{}], but input 0 has [{}]; expected the same ones: ask about "
          "the others in a call of their own",
          i, fmt::join(inputs[i].channels, ", "), fmt::join(first.channels, ", "));
    }
  }
}

OpenInput open_tensor(const at::Tensor& tensor, size_t place, const train::Inference& inference) {
  const auto& form = inference.input;
  const auto name = fmt::format("input {}", place);
  if (inference.model->takes_patches()) {
    fail<ConfigError>(
        "{}: a tensor, but the model takes adaptive patches, which are cut from files; expected "
        "images or volumes as files",
        name);
  }
  const bool is_shaped = tensor.defined() && tensor.dim() == form.spatial_dims + 1;
  if (!is_shaped || tensor.size(0) != form.in_chans || tensor.numel() == 0) {
    fail<ConfigError>(
        "{}: a tensor of [{}]; expected [{}, {}] float32, already normalised: the model takes {} "
        "of {} {}",
        name, fmt::join(tensor.defined() ? tensor.sizes() : at::IntArrayRef(), ", "), form.in_chans,
        form.spatial_dims == 3 ? "D, H, W" : "H, W", form.spatial_dims == 3 ? "volumes" : "images",
        form.in_chans, form.in_chans == 1 ? "channel" : "channels");
  }
  return {.samples = nullptr,
          .index = static_cast<int64_t>(place),
          .tensor = tensor.unsqueeze(0),
          .name = name};
}

// Together, or one by one where one of them cannot be opened.
std::vector<OpenInput> open_files(const std::vector<std::string>& paths,
                                  const train::Inference& inference) {
  std::vector<OpenInput> opened;
  try {
    const auto samples = inference.open_files(paths);
    for (size_t i = 0; i < paths.size(); ++i) {
      opened.push_back({.samples = samples, .index = static_cast<int64_t>(i), .name = paths[i]});
    }
  } catch (const DataError& error) {
    if (paths.size() == 1) return {{.samples = nullptr, .name = paths[0], .error = error}};
    for (const auto& path : paths) opened.push_back(open_files({path}, inference).front());
  }
  return opened;
}

// All of one form.
template <class T>
std::vector<T> contents(const std::vector<Input>& inputs) {
  std::vector<T> all;
  for (const auto& input : inputs) all.push_back(std::get<T>(input.content));
  return all;
}

// Images together, each volume by itself.
std::vector<OpenInput> open_encoded(std::vector<EncodedInput> files,
                                    const train::Inference& inference) {
  std::vector<OpenInput> opened;
  std::vector<EncodedInput> images;
  for (auto& file : files) {
    opened.push_back({.samples = nullptr, .name = file.name});
    if (is_volume_file(file.bytes)) {
      try {
        opened.back().samples = open_volume_in_memory(file.bytes, file.name, inference);
      } catch (const DataError& error) {
        opened.back().error = error;
      }
      continue;
    }
    opened.back().index = static_cast<int64_t>(images.size());
    images.push_back(std::move(file));
  }
  const auto samples = std::make_shared<const EncodedImages>(std::move(images));
  for (auto& one : opened) {
    if (!one.samples && !one.error) one.samples = samples;
  }
  return opened;
}

// A model of images has volumes where slices are cut out of them.
void check_form(const std::vector<OpenInput>& inputs, const train::Inference& inference) {
  const bool takes_images = inference.input.spatial_dims != 3;
  const bool takes_volumes =
      !takes_images ||
      std::holds_alternative<std::shared_ptr<const data::VolumePipeline>>(inference.transforms);
  for (const auto& input : inputs) {
    if (!input.samples) continue;
    const bool is_volume = input.samples->form() == data::SampleForm::kVolume;
    if (is_volume && !takes_volumes) {
      fail<ConfigError>(
          "the model takes images [H, W], but {} is a volume; expected image files, or "
          "tensors: slices of volumes are for runs that were trained on them (data.tiling.two_d)",
          input.name);
    }
    if (!is_volume && !takes_images) {
      fail<ConfigError>(
          "the model takes volumes [D, H, W], but {} is an image; expected NIfTI files, folders of "
          "DICOM slices, or tensors",
          input.name);
    }
  }
}

OpenInput open_sample(const SampleInput& input) {
  FOVEA_CHECK(input.samples && input.index >= 0 && input.index < input.samples->size(),
              "sample {} of a data set of {}", input.index,
              input.samples ? input.samples->size() : 0);
  return {.samples = input.samples,
          .index = input.index,
          .name = input.name.empty() ? input.samples->describe(input.index) : input.name};
}

OpenInput open_ready(const std::shared_ptr<ReadyInput>& ready) {
  OpenInput opened = ready->from;
  opened.ready = ready;
  return opened;
}

// A sample, a tensor or what was prepared.
OpenInput open_one(const Input& input, size_t place, const train::Inference& inference) {
  const auto& content = input.content;
  if (const auto* sample = std::get_if<SampleInput>(&content)) return open_sample(*sample);
  if (const auto* ready = std::get_if<std::shared_ptr<ReadyInput>>(&content))
    return open_ready(*ready);
  return open_tensor(std::get<at::Tensor>(content), place, inference);
}

}  // namespace

std::vector<Input> file_inputs(const std::vector<std::string>& paths) {
  std::vector<Input> inputs;
  for (const auto& path : paths) inputs.push_back({FileInput{path}});
  return inputs;
}

std::shared_ptr<const data::Dataset> OpenInput::only() const {
  return data::SubsetDataset::of_one(samples, index);
}

std::vector<OpenInput> open_inputs(const std::vector<Input>& inputs,
                                   const train::Inference& inference) {
  check_one_form(inputs);
  const auto& first = inputs.front().content;
  std::vector<OpenInput> opened;
  if (std::holds_alternative<FileInput>(first)) {
    std::vector<std::string> paths;
    for (const auto& file : contents<FileInput>(inputs)) paths.push_back(file.path);
    opened = open_files(paths, inference);
  } else if (std::holds_alternative<EncodedInput>(first)) {
    opened = open_encoded(contents<EncodedInput>(inputs), inference);
  }
  for (size_t i = opened.size(); i < inputs.size(); ++i)
    opened.push_back(open_one(inputs[i], i, inference));
  check_form(opened, inference);
  return opened;
}

train::PreparedBatch prepare(const OpenInput& input, const train::Inference& inference) {
  if (input.error) throw *input.error;
  if (input.ready && input.ready->is_row())
    return {.buffers = {}, .tensors = inference.on_device(input.ready->passes.front())};
  if (input.samples) return inference.prepare(input.samples, input.index, 1);
  train::PreparedBatch prepared;
  prepared.tensors.images = input.tensor.to(inference.compute.device, inference.compute.dtype);
  prepared.tensors.variables = inference.channels;
  return prepared;
}

}  // namespace fovea::inference
