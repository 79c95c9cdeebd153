// An input of no meaning, to warm a model up with.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/inference/predict_input.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::serve {

// [C, sides] of the tensors that a model is made for.
std::vector<int64_t> own_sides(const train::Inference& model);

class BlankInput {
 public:
  explicit BlankInput(const train::Inference& model);

  // A tensor of zeros; of a model whose adaptive patches are cut from files the image, or volume,
  // that one would have in it.
  inference::Input make() const;

 private:
  std::vector<int64_t> sides_;  // [C, sides]
  bool is_tensor_, is_volume_;
};

}  // namespace fovea::serve
