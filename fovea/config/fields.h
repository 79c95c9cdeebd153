// How a typed config describes itself. A config is a plain struct with defaults and one field list:
//
//   struct AdamWConfig {
//     static constexpr std::string_view kName = "adamw";   // only for alternatives of a OneOf
//     double lr = 1e-3;
//     std::vector<double> betas = {0.9, 0.999};
//
//     template <class Visitor, class Self>
//     static void visit(Visitor& v, Self& self) {
//       v.field("lr", self.lr, "peak learning rate", {.min = 0});
//       v.field("betas", self.betas, "decay rates of the two moments");
//     }
//     void validate(ConfigIssues& issues) const;           // optional: checks across fields
//   };
//
// The same list serves parsing, help, dump, diff, JSON schema and the reference in docs/. Field
// types: bool, int64_t, double, std::string, std::optional<T>, std::vector<T>,
// std::map<std::string, T>, another config, OneOf<...>.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fovea/config/issues.h"

namespace fovea {

struct FieldOptions {
  std::optional<double> min =
      {};  // smallest value allowed (largest value excluded below, if exclusive_min)
  std::optional<double> max = {};
  bool exclusive_min = false;
  bool exclusive_max = false;
  std::vector<std::string> choices = {};  // for strings: the only values allowed
  std::string unit = {};                  // "pixels", "samples", "steps", "s"
  bool required = false;                  // no default that makes sense: must be given
  bool one_is_list = false;               // of a list: a single value stands for a list of one
  std::string null_word = {};  // of an optional: what stands for "no value", such as "auto"
  // Keys beside it that say the same otherwise: given on the command line, or in changes to a
  // config, it takes the place of those that stand below. What both in one place mean is the
  // config's own affair.
  std::vector<std::string> instead_of = {};
};

namespace detail {
// What a OneOf holds. Its copies are out of line, so that one file can compile them for all: see
// Note [Configs compiled once] in config_binding.h.
template <class Variant>
struct OneOfValue {
  Variant value;

  OneOfValue();
  explicit OneOfValue(Variant&& v);
  OneOfValue(const OneOfValue&);
  OneOfValue(OneOfValue&&) noexcept;
  OneOfValue& operator=(const OneOfValue&);
  OneOfValue& operator=(OneOfValue&&) noexcept;
  ~OneOfValue();

  std::string_view name() const;
};

template <class Variant>
OneOfValue<Variant>::OneOfValue() = default;
template <class Variant>
OneOfValue<Variant>::OneOfValue(Variant&& v) : value(std::move(v)) {}
template <class Variant>
OneOfValue<Variant>::OneOfValue(const OneOfValue&) = default;
template <class Variant>
OneOfValue<Variant>::OneOfValue(OneOfValue&&) noexcept = default;
template <class Variant>
OneOfValue<Variant>& OneOfValue<Variant>::operator=(const OneOfValue&) = default;
template <class Variant>
OneOfValue<Variant>& OneOfValue<Variant>::operator=(OneOfValue&&) noexcept = default;
template <class Variant>
OneOfValue<Variant>::~OneOfValue() = default;

template <class Variant>
std::string_view OneOfValue<Variant>::name() const {
  return std::visit([](const auto& chosen) { return std::decay_t<decltype(chosen)>::kName; },
                    value);
}
}  // namespace detail

// Exactly one of several configs, chosen in the recipe by the key `name` (or Tag, e.g. `format` for
// data sets): `optim: {name: adamw, lr: 1e-3}`. Options of the alternatives not chosen are unknown
// keys. Each alternative has `kName`; the first one is the default. In a list, `- horizontal_flip`
// is short for `- {name: horizontal_flip}`.
template <class... Alternatives>
struct OneOf : detail::OneOfValue<std::variant<Alternatives...>> {
  using Value = detail::OneOfValue<std::variant<Alternatives...>>;

  OneOf() = default;
  template <class T>
  requires(std::is_same_v<std::decay_t<T>, Alternatives> || ...) OneOf(T&& alternative)
      : Value(std::variant<Alternatives...>(std::forward<T>(alternative))) {}

  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&this->value);
  }
  template <class F>
  decltype(auto) visit_value(F&& f) const {
    return std::visit(std::forward<F>(f), this->value);
  }
};

// The key that names the alternative: `static constexpr std::string_view kTag` of the alternative,
// else "name".
template <class Alternative>
constexpr std::string_view tag_key() {
  if constexpr (requires { Alternative::kTag; }) {
    return Alternative::kTag;
  } else {
    return "name";
  }
}

// A config that fills its defaults from a named preset (key `preset`) before the other keys are
// read has
//   bool apply_preset(const std::string& preset);                    // false: no such preset
//   static std::vector<std::string> preset_names();

}  // namespace fovea
