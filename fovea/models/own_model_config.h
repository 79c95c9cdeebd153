// The config of a model from outside of this library, without its type: see own_model.h.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

class Model;

// One config, with what the library asks of the model that it is of.
class OwnModelValue {
 public:
  virtual ~OwnModelValue() = default;
  virtual std::unique_ptr<OwnModelValue> copy() const = 0;
  virtual std::unique_ptr<SectionBinding> bind() = 0;
  virtual std::shared_ptr<Model> build(c10::Device device) const = 0;
  virtual parallel::Partitioning partitioning() const = 0;
};

// The alternative of ModelConfig that all registered models share.
class OwnModelConfig {
 public:
  // index: of own_model_names(); with the defaults of its keys.
  explicit OwnModelConfig(size_t index);
  OwnModelConfig(const OwnModelConfig& other);
  OwnModelConfig(OwnModelConfig&&) noexcept = default;
  OwnModelConfig& operator=(const OwnModelConfig& other);
  OwnModelConfig& operator=(OwnModelConfig&&) noexcept = default;

  size_t index() const { return index_; }
  std::string_view name() const;
  OwnModelValue& value() { return *value_; }
  const OwnModelValue& value() const { return *value_; }

 private:
  size_t index_;
  std::unique_ptr<OwnModelValue> value_;
};

// In the order in which they were registered.
std::vector<std::string> own_model_names();

// make: the config with its defaults. Throws Error where the name is taken.
void add_own_model(const std::string& name, std::function<std::unique_ptr<OwnModelValue>()> make);

}  // namespace fovea::models
