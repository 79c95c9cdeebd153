// What `fovea predict` is given, and what becomes of inputs that cannot be read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/input_files.h"
#include "fovea/inference/predictor.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::app {

// Inputs that are opened together: files, or the samples of a data set.
struct PredictInputs {
  std::vector<data::ModelInput> inputs;
  std::shared_ptr<const data::Dataset> samples;  // one for each
  bool are_files = true;                         // what `path` of an input is

  // Input i, or `count` from there on, for a predictor.
  std::vector<inference::Input> given(int64_t i, int64_t count = 1) const;
  // The file that outputs of input i are placed after; empty: it is none.
  std::string file(int64_t i) const;
  int64_t size() const { return static_cast<int64_t>(inputs.size()); }
  const data::ModelInput& at(int64_t i) const { return inputs[static_cast<size_t>(i)]; }
};

// Of files, of folders of files at any depth, of lists of files, and of data sets as `fovea data
// inspect` takes them. At least one input. Throws ConfigError, DataError.
std::vector<PredictInputs> open_predict_inputs(const std::vector<std::string>& arguments,
                                               const train::Inference& inference);

// Throws ConfigError where what is written for two inputs would have one name.
void check_stems(const std::vector<PredictInputs>& all);

// Inputs that cannot be read. The others are predicted.
class UnreadableInputs {
 public:
  // as_json: an object with the input and the error stands among those on standard output.
  UnreadableInputs(int64_t total, bool as_json) : total_(total), as_json_(as_json) {}

  // Says so at once; of an input that is the only one it throws the error itself. -> the JSON line
  std::string add(const std::string& input, const DataError& error);
  // After the last input: throws DataError where there were any.
  void finish() const;

 private:
  int64_t total_;
  int64_t count_ = 0;
  bool as_json_;
};

int64_t count_inputs(const std::vector<PredictInputs>& all);

// Calls predict(inputs, i) for each input. Where it throws DataError the input counts as one that
// cannot be read; throws that after the last one.
void for_each_input(const std::vector<PredictInputs>& all, bool as_json,
                    const std::function<void(const PredictInputs& inputs, int64_t i)>& predict);

}  // namespace fovea::app
