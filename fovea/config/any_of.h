// Exactly one of several configs, as OneOf, seen through an interface: what holds one, reads or
// writes it includes none of the alternatives. They stand in one table, which alone knows them all:
//
//   class Shape : public ConfigAlternative {             // shape.h
//    public:
//     static const ConfigAlternatives& alternatives();    // defined beside the table
//     virtual double area() const = 0;
//   };
//
//   template <class Config>                               // shapes.cc
//   class ShapeOf final : public ConfigHolder<Shape, Config, ShapeOf<Config>> {
//     double area() const override { return area_of(this->config); }
//   };
//   const ConfigAlternatives& Shape::alternatives() {
//     static const ConfigAlternatives all = {alternative<ShapeOf<CircleConfig>>(), ...};
//     return all;
//   }
//
// A config has a field `AnyOf<Shape> shape`, and asks `shape->area()`. The first of the table is
// the default.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fovea/config/binding.h"

namespace fovea {

// A config without its type.
class ConfigAlternative {
 public:
  virtual ~ConfigAlternative() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view tag() const = 0;  // the key that names it
  virtual std::unique_ptr<SectionBinding> bind() = 0;
  virtual std::unique_ptr<ConfigAlternative> clone() const = 0;
  virtual const std::type_info& type() const = 0;
  virtual void* value() = 0;  // the config
};

struct ConfigAlternativeEntry {
  std::string_view name;
  const std::type_info* type;  // of the config
  std::unique_ptr<ConfigAlternative> (*make)();
};
using ConfigAlternatives = std::vector<ConfigAlternativeEntry>;

// The parts of an alternative that are the same for each: `Holder` derives from this, and
// implements what `Interface` asks of `config`.
template <class Interface, class Config, class Holder>
class ConfigHolder : public Interface {
 public:
  using Held = Config;
  std::string_view name() const override { return Config::kName; }
  std::string_view tag() const override { return tag_key<Config>(); }
  std::unique_ptr<SectionBinding> bind() override { return bind_config(config); }
  std::unique_ptr<ConfigAlternative> clone() const override {
    return std::make_unique<Holder>(static_cast<const Holder&>(*this));
  }
  const std::type_info& type() const override { return typeid(Config); }
  void* value() override { return &config; }

  Config config = {};
};

template <class Holder>
ConfigAlternativeEntry alternative() {
  return {Holder::Held::kName, &typeid(typename Holder::Held),
          []() -> std::unique_ptr<ConfigAlternative> { return std::make_unique<Holder>(); }};
}

namespace detail {

// AnyOf without its interface.
class AnyConfig {
 public:
  explicit AnyConfig(const ConfigAlternatives& all);  // the first
  // A default one of the config's type.
  AnyConfig(const ConfigAlternatives& all, const std::type_info& type);
  AnyConfig(const ConfigAlternatives& all, std::unique_ptr<ConfigAlternative> held)
      : all_(&all), held_(std::move(held)) {}
  AnyConfig(const AnyConfig& other);
  AnyConfig(AnyConfig&&) noexcept = default;
  AnyConfig& operator=(const AnyConfig& other);
  AnyConfig& operator=(AnyConfig&&) noexcept = default;

  std::string_view name() const { return held_->name(); }
  template <class Config>
  const Config* get_if() const {
    return held_->type() == typeid(Config) ? static_cast<const Config*>(held_->value()) : nullptr;
  }
  template <class Config>
  Config* get_if() {
    return held_->type() == typeid(Config) ? static_cast<Config*>(held_->value()) : nullptr;
  }

  const ConfigAlternatives& all() const { return *all_; }
  ConfigAlternative& held() const { return *held_; }
  void select(size_t index);

 private:
  const ConfigAlternatives* all_;
  std::unique_ptr<ConfigAlternative> held_;  // null: moved from
};

struct BoundAnyConfig final : OneOfBinding {
  explicit BoundAnyConfig(AnyConfig& t) : target(t) {}
  std::string_view tag() const override { return target.held().tag(); }
  std::vector<std::string> names() const override;
  size_t index() const override;
  void select(size_t index) const override { target.select(index); }
  std::unique_ptr<SectionBinding> chosen() const override { return target.held().bind(); }
  ConfigPrototype prototype(size_t index) const override;
  AnyConfig& target;
};

}  // namespace detail

template <class Interface>
class AnyOf : public detail::AnyConfig {
 public:
  AnyOf() : AnyConfig(Interface::alternatives()) {}
  // Of a config that stands in the table.
  template <class Config>
  requires requires { Config::kName; }
  AnyOf(Config config) : AnyConfig(Interface::alternatives(), typeid(Config)) {
    *static_cast<Config*>(held().value()) = std::move(config);
  }
  // Of an interface whose alternatives are among those of this one.
  template <class Narrow>
  requires(std::is_base_of_v<Interface, Narrow> && !std::is_same_v<Interface, Narrow>)
      AnyOf(const AnyOf<Narrow>& other)
      : AnyConfig(Interface::alternatives(), other.held().clone()) {}

  const Interface& operator*() const { return static_cast<const Interface&>(held()); }
  const Interface* operator->() const { return &**this; }
  Interface* operator->() { return &static_cast<Interface&>(held()); }

  // The same as an alternative of `Narrow`; nullopt: it is none.
  template <class Narrow>
  std::optional<AnyOf<Narrow>> as() const {
    if (dynamic_cast<const Narrow*>(&held()) == nullptr) return std::nullopt;
    return AnyOf<Narrow>(held().clone());
  }

 private:
  template <class>
  friend class AnyOf;
  explicit AnyOf(std::unique_ptr<ConfigAlternative> held)
      : AnyConfig(Interface::alternatives(), std::move(held)) {}
};

namespace detail {
template <class Interface>
struct BindingOf<AnyOf<Interface>> {
  using type = BoundAnyConfig;
};
}  // namespace detail

}  // namespace fovea
