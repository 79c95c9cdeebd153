#include "fovea/models/own_model.h"

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/models/model_config.h"

namespace fovea::models {
namespace {

struct OwnModelEntry {
  std::string name;
  std::function<std::unique_ptr<OwnModelValue>()> make;
};

// Registered by the program, before it reads a recipe; nothing is ever taken out.
std::vector<OwnModelEntry>& own_models() {
  static std::vector<OwnModelEntry> all;
  return all;
}

}  // namespace

OwnModelConfig::OwnModelConfig(size_t index)
    : index_(index), value_(own_models().at(index).make()) {}

OwnModelConfig::OwnModelConfig(const OwnModelConfig& other)
    : index_(other.index_), value_(other.value_->copy()) {}

OwnModelConfig& OwnModelConfig::operator=(const OwnModelConfig& other) {
  index_ = other.index_;
  value_ = other.value_->copy();
  return *this;
}

std::string_view OwnModelConfig::name() const { return own_models().at(index_).name; }

std::vector<std::string> own_model_names() {
  std::vector<std::string> names;
  for (const auto& entry : own_models()) names.push_back(entry.name);
  return names;
}

void add_own_model(const std::string& name, std::function<std::unique_ptr<OwnModelValue>()> make) {
  ModelConfig config;
  const auto taken = bind_config(config)->names();
  if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
    fail<Error>(
        "register_model: a model named '{}' is there already; give its config another "
        "kName, and register it once",
        name);
  }
  own_models().push_back({name, std::move(make)});
}

}  // namespace fovea::models
