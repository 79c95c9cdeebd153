// Loading, printing and describing typed configs (see config_fields.h for how a config is written).
//
// Precedence: defaults < preset < recipe file < `a.b=c` overrides. Every fault is collected and
// reported at once in one ConfigError: file:line, the key, what was found, what is allowed, the
// nearest known key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"

namespace fovea {

// One line of the reference: a key, what it takes and what it is for.
struct ConfigKey {
  std::string key;  // "optim.lr"; `*` stands for an index or a name: "data.train.transforms.*.size"
  std::string type;           // "number", "list of integers", "one of" ...
  std::string default_value;  // as YAML; empty where there is none
  std::string range;          // "> 0", "in [0, 1)", or empty
  std::vector<std::string> choices;
  std::string unit;
  std::string help;
  std::string alternative;  // "optim.name=adamw": only then is the key known; empty: always
  bool required = false;
};

struct ConfigDifference {
  std::string key;
  std::optional<std::string> a, b;  // as YAML; no value where the key is not there
};

// The algorithms, on configs without their type; `describe...` take a default-constructed config.
namespace detail {
void read_config_text(const SectionBinding& config, std::string_view yaml,
                      const std::string& source, const std::vector<std::string>& overrides);
void read_config_file(const SectionBinding& config, const std::string& path,
                      const std::vector<std::string>& overrides);
std::string dump_section(const SectionBinding& config);
std::vector<ConfigKey> list_keys(const SectionBinding& config);
std::vector<ConfigDifference> diff_sections(const SectionBinding& a, const SectionBinding& b);
void read_changed(const SectionBinding& base, const ConfigTree& changes, const std::string& source,
                  const SectionBinding& out);

// Bindings are references to what may change; printing changes nothing.
template <class T>
BoundSection<T> bind_const(const T& config) {
  return BoundSection<T>(const_cast<T&>(config));
}
}  // namespace detail

// Reads a recipe file. Throws ConfigError with every fault, one a line.
template <class T>
T load_config(const std::string& yaml_path, const std::vector<std::string>& overrides = {}) {
  T config;
  detail::read_config_file(detail::BoundSection<T>(config), yaml_path, overrides);
  return config;
}

// The same from text; `source_name` stands for the file in messages.
template <class T>
T parse_config(std::string_view yaml, std::string_view source_name,
               const std::vector<std::string>& overrides = {}) {
  T config;
  detail::read_config_text(detail::BoundSection<T>(config), yaml, std::string(source_name),
                           overrides);
  return config;
}

// `base` with `changes`, a tree of keys of T: plain values and lists take the place of those of
// `base`, sections are gone into. A section for which `changes` names another alternative or preset
// is given anew. Throws ConfigError with every fault, with the file and line of the change, or
// `source_name` where a check concerns no line.
template <class T>
T changed_config(const T& base, const ConfigTree& changes, const std::string& source_name) {
  T config;
  detail::read_changed(detail::bind_const(base), changes, source_name,
                       detail::BoundSection<T>(config));
  return config;
}

// YAML with every key, in the order of the field lists; parses back to an equal config.
template <class T>
std::string dump_config(const T& config) {
  return detail::dump_section(detail::bind_const(config));
}

// Every key of T with all alternatives, in the order of the field lists.
template <class T>
std::vector<ConfigKey> config_keys() {
  T config;
  return detail::list_keys(detail::BoundSection<T>(config));
}

// Keys whose values differ, in the order of the field lists.
template <class T>
std::vector<ConfigDifference> config_diff(const T& a, const T& b) {
  return detail::diff_sections(detail::bind_const(a), detail::bind_const(b));
}

}  // namespace fovea
