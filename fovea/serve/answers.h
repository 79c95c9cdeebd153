// The answers of a model to a batch of questions.
#pragma once

#include <chrono>
#include <exception>
#include <span>
#include <vector>

#include "fovea/inference/predictor.h"
#include "fovea/serve/model_interface.h"
#include "fovea/serve/protocol/infer_response.h"

namespace fovea::serve {

// The outputs, or why there are none.
struct Answer {
  std::vector<OutputTensor> outputs;
  std::exception_ptr error;
};

struct AnswerTimes {
  std::chrono::nanoseconds compute{};  // in the model
  std::chrono::nanoseconds output{};   // what was made of it
};

// Inputs of all questions go through the model together; what is wrong with one of them fails its
// own question alone. Never throws for a question's sake.
std::vector<Answer> answer(const inference::Predictor& predictor,
                           std::span<const Question* const> questions, AnswerTimes& times);

}  // namespace fovea::serve
