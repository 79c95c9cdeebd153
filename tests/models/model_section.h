// A configuration that has a model and nothing else, as a recipe's section `model:` reads.
#pragma once

#include "fovea/config/config.h"
#include "fovea/models/model_config.h"

namespace fovea::models {

struct ModelSection {
  ModelConfig model;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
  }
};

}  // namespace fovea::models
