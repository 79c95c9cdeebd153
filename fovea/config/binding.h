// A live config seen without its type, so that parsing, printing, schema and diff are ordinary code
// in .cc files and each config instantiates only what is below.
//
// Note [Configs compiled once]
// A file that copies a OneOf or binds a config to its fields would compile that code for every
// alternative, and a recipe has ninety of them: half a minute of each file that touches it. Where a
// OneOf or a section stands at the root of many, its header says `extern template` of
//   detail::OneOfValue<decltype(X::value)>   copies of the OneOf X
//   detail::BoundOneOf<X>                    its binding
//   detail::BoundSection<X>                  the binding of the section X
// and the .cc file of that header has the same lines without `extern`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/config/node.h"

namespace fovea {

// A reference to one value of a config; valid while the config lives and its lists do not grow.
class ConfigBinding {
 public:
  enum class Kind { kScalar, kOptional, kList, kMap, kSection, kOneOf, kTree };
  virtual ~ConfigBinding() = default;
  virtual Kind kind() const = 0;
};
using ConfigBindingPtr = std::unique_ptr<ConfigBinding>;

// A default-constructed value with its binding: what a list, map, optional or OneOf could hold.
struct ConfigPrototype {
  std::shared_ptr<void> value;
  ConfigBindingPtr binding;
};

struct ConfigField {
  std::string name;
  std::string help;
  FieldOptions options;
  ConfigBindingPtr binding;
};

struct ScalarBinding final : ConfigBinding {
  using Target = std::variant<bool*, int64_t*, double*, std::string*>;
  explicit ScalarBinding(Target t) : target(t) {}
  Kind kind() const override { return Kind::kScalar; }
  Target target;
};

struct OptionalBinding : ConfigBinding {
  Kind kind() const override { return Kind::kOptional; }
  virtual ConfigBindingPtr value() const = 0;    // null where there is none
  virtual ConfigBindingPtr emplace() const = 0;  // a default value
  virtual void reset() const = 0;
  virtual ConfigPrototype prototype() const = 0;
};

struct ListBinding : ConfigBinding {
  Kind kind() const override { return Kind::kList; }
  virtual size_t size() const = 0;
  virtual ConfigBindingPtr at(size_t index) const = 0;
  virtual ConfigBindingPtr append() const = 0;
  virtual void clear() const = 0;
  virtual ConfigPrototype prototype() const = 0;
};

struct MapBinding : ConfigBinding {
  Kind kind() const override { return Kind::kMap; }
  virtual std::vector<std::string> keys() const = 0;
  virtual ConfigBindingPtr at(
      const std::string& key) const = 0;  // inserts a default value if absent
  virtual void clear() const = 0;
  virtual ConfigPrototype prototype() const = 0;
};

struct TreeBinding final : ConfigBinding {
  explicit TreeBinding(ConfigTree& t) : target(t) {}
  Kind kind() const override { return Kind::kTree; }
  ConfigTree& target;
};

struct SectionBinding : ConfigBinding {
  Kind kind() const override { return Kind::kSection; }
  virtual std::vector<ConfigField> fields() const = 0;
  virtual bool has_presets() const = 0;
  virtual std::vector<std::string> preset_names() const = 0;
  virtual bool apply_preset(const std::string& preset) const = 0;
  virtual void validate(ConfigIssues& issues) const = 0;
  // The last check of a whole config, once nothing else is wrong with it. Throws ConfigError.
  virtual void check() const = 0;
};

struct OneOfBinding : ConfigBinding {
  Kind kind() const override { return Kind::kOneOf; }
  virtual std::string_view tag() const = 0;
  virtual std::vector<std::string> names() const = 0;
  virtual size_t index() const = 0;
  virtual void select(size_t index) const = 0;  // a default-constructed alternative
  virtual std::unique_ptr<SectionBinding> chosen() const = 0;
  virtual ConfigPrototype prototype(size_t index) const = 0;
};

template <class T>
auto bind_config(T& value);

namespace detail {

template <class T>
struct BindingOf;

template <class T>
ConfigPrototype make_prototype() {
  auto value = std::make_shared<T>();
  return {value, bind_config(*value)};
}

template <class T>
struct BoundOptional final : OptionalBinding {
  explicit BoundOptional(std::optional<T>& t) : target(t) {}
  ConfigBindingPtr value() const override {
    return target ? ConfigBindingPtr(bind_config(*target)) : nullptr;
  }
  ConfigBindingPtr emplace() const override { return bind_config(target.emplace()); }
  void reset() const override { target.reset(); }
  ConfigPrototype prototype() const override { return make_prototype<T>(); }
  std::optional<T>& target;
};

template <class T>
struct BoundList final : ListBinding {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> cannot be a config field");
  explicit BoundList(std::vector<T>& t) : target(t) {}
  size_t size() const override { return target.size(); }
  ConfigBindingPtr at(size_t index) const override { return bind_config(target.at(index)); }
  ConfigBindingPtr append() const override { return bind_config(target.emplace_back()); }
  void clear() const override { target.clear(); }
  ConfigPrototype prototype() const override { return make_prototype<T>(); }
  std::vector<T>& target;
};

template <class T>
struct BoundMap final : MapBinding {
  explicit BoundMap(std::map<std::string, T>& t) : target(t) {}
  std::vector<std::string> keys() const override {
    std::vector<std::string> all;
    for (const auto& entry : target) all.push_back(entry.first);
    return all;
  }
  ConfigBindingPtr at(const std::string& key) const override { return bind_config(target[key]); }
  void clear() const override { target.clear(); }
  ConfigPrototype prototype() const override { return make_prototype<T>(); }
  std::map<std::string, T>& target;
};

// The visitor that a config's `visit` meets.
struct FieldCollector {
  std::vector<ConfigField> fields;

  template <class T>
  void field(std::string_view name, T& reference, std::string_view help,
             FieldOptions options = {}) {
    fields.push_back(
        {std::string(name), std::string(help), std::move(options), bind_config(reference)});
  }
};

template <class T>
concept ConfigStruct = requires(FieldCollector& collector, T& config) {
  T::visit(collector, config);
};

template <ConfigStruct T>
struct BoundSection final : SectionBinding {
  explicit BoundSection(T& t) : target(t) {}
  std::vector<ConfigField> fields() const override {
    FieldCollector collector;
    T::visit(collector, target);
    return std::move(collector.fields);
  }
  static constexpr bool kPresets = requires(T & config, std::string name) {
    config.apply_preset(name);
    T::preset_names();
  };
  bool has_presets() const override { return kPresets; }
  std::vector<std::string> preset_names() const override {
    if constexpr (kPresets) return T::preset_names();
    return {};
  }
  bool apply_preset([[maybe_unused]] const std::string& preset) const override {
    if constexpr (kPresets) return target.apply_preset(preset);
    return false;
  }
  void validate([[maybe_unused]] ConfigIssues& issues) const override {
    if constexpr (requires { std::as_const(target).validate(issues); }) target.validate(issues);
  }
  void check() const override {
    if constexpr (requires { std::as_const(target).check(); }) std::as_const(target).check();
  }
  T& target;
};

template <class Chosen>
struct BoundOneOf;

template <class... Alternatives>
struct BoundOneOf<OneOf<Alternatives...>> final : OneOfBinding {
  using First = std::tuple_element_t<0, std::tuple<Alternatives...>>;
  explicit BoundOneOf(OneOf<Alternatives...>& t) : target(t) {}
  std::string_view tag() const override { return tag_key<First>(); }
  std::vector<std::string> names() const override { return {std::string(Alternatives::kName)...}; }
  size_t index() const override { return target.value.index(); }
  void select(size_t index) const override {
    size_t i = 0;
    ((i++ == index ? static_cast<void>(target.value.template emplace<Alternatives>()) : void()),
     ...);
  }
  std::unique_ptr<SectionBinding> chosen() const override {
    return std::visit(
        [](auto& alternative) -> std::unique_ptr<SectionBinding> {
          return bind_config(alternative);
        },
        target.value);
  }
  ConfigPrototype prototype(size_t index) const override {
    ConfigPrototype result;
    size_t i = 0;
    ((i++ == index ? static_cast<void>(result = make_prototype<Alternatives>()) : void()), ...);
    return result;
  }
  OneOf<Alternatives...>& target;
};

template <class T>
struct BindingOf<std::optional<T>> {
  using type = BoundOptional<T>;
};
template <class T>
struct BindingOf<std::vector<T>> {
  using type = BoundList<T>;
};
template <class T>
struct BindingOf<std::map<std::string, T>> {
  using type = BoundMap<T>;
};
template <class... Alternatives>
struct BindingOf<OneOf<Alternatives...>> {
  using type = BoundOneOf<OneOf<Alternatives...>>;
};

template <class T>
inline constexpr bool kIsScalarField = std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                                       std::is_same_v<T, double> || std::is_same_v<T, std::string>;

}  // namespace detail

// The binding of a value of any field type. A type that is none of them does not compile.
template <class T>
auto bind_config(T& value) {
  if constexpr (detail::kIsScalarField<T>) {
    return std::make_unique<ScalarBinding>(&value);
  } else if constexpr (std::is_same_v<T, ConfigTree>) {
    return std::make_unique<TreeBinding>(value);
  } else if constexpr (detail::ConfigStruct<T>) {
    return std::make_unique<detail::BoundSection<T>>(value);
  } else {
    return std::make_unique<typename detail::BindingOf<T>::type>(value);
  }
}

}  // namespace fovea
