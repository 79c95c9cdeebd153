// Evaluation mode for a while.
#pragma once

#include "fovea/models/model.h"

namespace fovea::train {

class EvalModeScope {
 public:
  explicit EvalModeScope(models::Model& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvalModeScope() { model_.train(was_training_); }
  EvalModeScope(const EvalModeScope&) = delete;
  EvalModeScope& operator=(const EvalModeScope&) = delete;

 private:
  models::Model& model_;
  bool was_training_;
};

}  // namespace fovea::train
