// Models from outside of this library. Once registered, a model is one like any other in this
// program: a recipe names it, Trainer trains it, and weights files of its runs load.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include "fovea/models/model.h"
#include "fovea/models/own_model_config.h"
#include "fovea/models/segmenter.h"

namespace fovea::models {

namespace detail {

template <class OwnModel, class Config>
struct OwnModelOf final : OwnModelValue {
  std::unique_ptr<OwnModelValue> copy() const override {
    return std::make_unique<OwnModelOf>(*this);
  }
  std::unique_ptr<SectionBinding> bind() override { return bind_config(config); }
  ModelPtr build(c10::Device device) const override {
    return std::make_shared<OwnModel>(config, device);
  }
  parallel::Partitioning partitioning() const override {
    if constexpr (requires { partitioning_of(config); }) {
      return partitioning_of(config);
    } else {
      return {.rules = {{.pattern = "*"}}};
    }
  }

  Config config;
};

// Whether nobody else can see that it is one: `class Own : public Model, Segmenter`.
template <class OwnModel>
inline constexpr bool kHidesSegmenter =
    std::is_base_of_v<Segmenter, OwnModel> && !std::is_convertible_v<OwnModel*, Segmenter*>;

}  // namespace detail

// `model: {name: <Config::kName>}` in recipes is from now on an OwnModel(config, device). Config
// has a field list, as config_fields.h says; OwnModel is a Model. A function `partitioning_of(const
// Config&)` in the namespace of Config, declared before this is called, says how its layers are
// shared out over parallel.tp and cp; without it every process of them has all parameters, which
// both refuse. To be called before a recipe is read, from one thread. Throws Error where another
// model has the name.
template <class OwnModel, class Config>
void register_model() {
  static_assert(std::is_base_of_v<Model, OwnModel>, "a model is a fovea::models::Model");
  static_assert(!detail::kHidesSegmenter<OwnModel>,
                "a model that gives a class to each pixel derives from Segmenter publicly");
  add_own_model(std::string(Config::kName),
                [] { return std::make_unique<detail::OwnModelOf<OwnModel, Config>>(); });
}

}  // namespace fovea::models
