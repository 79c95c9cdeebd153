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

namespace fovea {

template train::TrainConfig load_config(const std::string&, const std::vector<std::string>&);
template train::TrainConfig parse_config(std::string_view, std::string_view,
                                         const std::vector<std::string>&);
template std::string dump_config(const train::TrainConfig&);
template std::vector<ConfigKey> config_keys<train::TrainConfig>();
template std::vector<ConfigDifference> config_diff(const train::TrainConfig&,
                                                   const train::TrainConfig&);

}  // namespace fovea
