#include "fovea/models/variables.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::models {
namespace {

int64_t index_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : found - names.begin();
}

void check_names(const std::vector<std::string>& variables, bool is_single,
                 const std::vector<std::string>& channels) {
  std::vector<std::string> unknown;
  for (size_t i = 0; i < channels.size(); ++i) {
    const auto& name = channels[i];
    if (index_of(channels, name) < static_cast<int64_t>(i)) {
      fail<ConfigError>("channel '{}' stands twice in [{}]; expected each variable once", name,
                        fmt::join(channels, ", "));
    }
    if (index_of(variables, name) < 0) unknown.push_back(name);
  }
  if (!unknown.empty()) {
    const bool is_none = unknown.size() == channels.size();
    fail<ConfigError>(
        "{} [{}]: found in the data, but {} in the model, which has [{}]; expected names of "
        "model.variables: correct `variables` of the data set, or train a model that has them",
        unknown.size() == 1 ? "channel" : "channels", fmt::join(unknown, ", "),
        is_none ? "none of its channels is" : "not", fmt::join(variables, ", "));
  }
  if (is_single && channels.size() > 1) {
    fail<ConfigError>(
        "batches of the channels [{}] for a model with single_channel; expected one channel: set "
        "single_channel: true in the data set, which makes a sample of each",
        fmt::join(channels, ", "));
  }
}

}  // namespace

std::vector<int64_t> variable_ids(const VitConfig& config,
                                  const std::vector<std::string>& channels) {
  std::vector<int64_t> ids;
  if (channels.empty()) {
    const auto count = config.single_channel ? 1 : config.variables.size();
    for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int64_t>(i));
    return ids;
  }
  check_names(config.variables, config.single_channel, channels);
  for (const auto& name : channels) ids.push_back(index_of(config.variables, name));
  return ids;
}

void check_channels(const Model& model, const std::vector<std::string>& channels,
                    const std::string& source) {
  const auto variables = model.variables();
  if (variables.empty()) return;
  const bool is_single = model.input_spec().in_chans == 1;
  if (channels.empty()) {
    if (!is_single || variables.size() == 1) return;
    fail<ConfigError>(
        "{}: its channel has no name, but the model has the variables [{}] and takes one at a "
        "time; name it: `variables` of a set of format: mix, or --variables",
        source, fmt::join(variables, ", "));
  }
  try {
    check_names(variables, is_single, channels);
  } catch (const ConfigError& error) {
    fail<ConfigError>("{}: {}", source, error.what());
  }
}

}  // namespace fovea::models
