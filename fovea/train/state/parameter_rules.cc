#include "fovea/train/state/parameter_rules.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

namespace fovea::train {

weights::ParameterRules parameter_rules(const models::Model& model,
                                        std::function<bool(const std::string&)> is_trained) {
  return {.is_trained = std::move(is_trained),
          .has_no_weight_decay =
              [patterns = model.no_weight_decay()](const std::string& name) {
                return std::any_of(patterns.begin(), patterns.end(),
                                   [&](const std::string& pattern) {
                                     return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
                                   });
              },
          .layer_id = [&model](const std::string& name) { return model.layer_id(name); }};
}

}  // namespace fovea::train
