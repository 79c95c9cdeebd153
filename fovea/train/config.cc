#include "fovea/train/config.h"

#include "fovea/core/error.h"

namespace fovea::train {

void TrainerConfig::validate(ConfigIssues& issues) const {
  if (max_epochs.has_value() == max_steps.has_value()) {
    issues.add(max_epochs ? "max_steps" : "max_epochs",
               fmt::format("found {}; expected exactly one of max_epochs and max_steps",
                           max_epochs ? "both max_epochs and max_steps" : "neither"));
  }
}

}  // namespace fovea::train
