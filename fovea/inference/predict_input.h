// What a predictor is asked about.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/dataset.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

// A path as `fovea predict` takes it: an image, a NIfTI file, a folder of DICOM slices; the files
// of several modalities divided by ;.
struct FileInput {
  std::string path;
};

// An image file, or a NIfTI file, in memory.
struct EncodedInput {
  std::vector<uint8_t> bytes;
  std::string name = "image";  // for messages
};

// One sample of a data set.
struct SampleInput {
  std::shared_ptr<const data::Dataset> samples;
  int64_t index = 0;
  std::string name = {};  // for messages; empty: as the data set describes it
};

struct ReadyInput;  // ready_input.h: made by Predictor::prepared

// A tensor is [C, H, W] or [C, D, H, W] float32, already normalised as the model expects.
struct Input {
  std::variant<FileInput, EncodedInput, SampleInput, at::Tensor, std::shared_ptr<ReadyInput>>
      content;
  // What the channels are, of a model with variables; empty: those that the predictor was loaded
  // for.
  std::vector<std::string> channels = {};
};

std::vector<Input> file_inputs(const std::vector<std::string>& paths);

// What became of one input: a value, or why it could not be read. The others are not touched by it.
template <class T>
struct Outcome {
  std::optional<T> value = {};
  std::optional<DataError> error = {};

  // Throws the error where there is one.
  T& get() {
    if (error) throw *error;
    return *value;
  }
};

// An input that lies open: a sample or a tensor.
struct OpenInput {
  std::shared_ptr<const data::Dataset> samples;  // null: a tensor, or it could not be opened
  int64_t index = 0;
  at::Tensor tensor = {};  // [1, C, sides]
  std::string name = {};
  std::optional<DataError> error = {};
  std::shared_ptr<ReadyInput> ready = {};  // what was made of the sample before; null: nothing

  // The sample alone: what cannot be read of the others does not matter to it.
  std::shared_ptr<const data::Dataset> only() const;
};

// Throws ConfigError: none, inputs of several forms or with several lists of channels, tensors of
// another shape than the model takes, images for a model of volumes. A file that cannot
// be opened fails alone.
std::vector<OpenInput> open_inputs(const std::vector<Input>& inputs,
                                   const train::Inference& inference);

// A sample, or a tensor as it is, for the model; of a ready input in its memory. Throws DataError.
train::PreparedBatch prepare(const OpenInput& input, const train::Inference& inference);

}  // namespace fovea::inference
