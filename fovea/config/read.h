// From the tree of a recipe to a typed config, collecting every fault.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/config/faults.h"
#include "fovea/config/node.h"

namespace fovea::detail {

// A whole number in any spelling, "1e6" and "2.0" too.
std::optional<int64_t> to_integer(std::string_view text);
// Of a number that is out of range: the ends that the field names, where it is out of these.
FieldOptions range_to_name(const ScalarBinding& number, const FieldOptions& options,
                           const ConfigNode& node);

class ConfigReader {
 public:
  // config: whose keys are suggested, across its sections; outlives this.
  ConfigReader(std::string source, const SectionBinding& config);

  void read_root(const SectionBinding& config, const ConfigNode& root);
  // Throws ConfigError if there was any fault.
  void throw_faults() { faults_.throw_all(); }

 private:
  void read(const ConfigBinding& binding, const FieldOptions& options, const ConfigNode& node,
            const std::string& key);
  void read_scalar(const ScalarBinding& scalar, const FieldOptions& options, const ConfigNode& node,
                   const std::string& key);
  void read_string(std::string& target, const FieldOptions& options, const ConfigNode& node,
                   const std::string& key);
  void read_optional(const OptionalBinding& optional, const FieldOptions& options,
                     const ConfigNode& node, const std::string& key);
  void read_list(const ListBinding& list, const FieldOptions& options, const ConfigNode& node,
                 const std::string& key);
  void patch_list(const ListBinding& list, const FieldOptions& options, const ConfigNode& node,
                  const std::string& key);
  void read_map(const MapBinding& map, const FieldOptions& options, const ConfigNode& node,
                const std::string& key);
  void read_one_of(const OneOfBinding& one_of, const ConfigNode& node, const std::string& key);
  void read_tree(const TreeBinding& tree, const ConfigNode& node, const std::string& key);
  bool select_alternative(const OneOfBinding& one_of, const ConfigNode& node,
                          const std::string& key);

  // node: null where the section is not in the recipe. owner: the OneOf that it is chosen in.
  void read_section(const SectionBinding& section, const ConfigNode* node, const std::string& key,
                    const OneOfBinding* owner = nullptr);
  std::set<std::string> displaced_fields(const std::vector<ConfigField>& fields,
                                         const ConfigNode& node, const std::string& key) const;
  void read_absent(const ConfigBinding& binding, const std::string& key);
  void read_preset(const SectionBinding& section, const ConfigNode& node, const std::string& key);
  void report_unknown_keys(const SectionBinding& section, const ConfigNode& node,
                           const std::string& key, const OneOfBinding* owner);
  std::string unknown_key_message(const std::string& name, const std::vector<std::string>& known,
                                  const std::string& key, const OneOfBinding* owner);

  void expected(const ConfigBinding& binding, const FieldOptions& options, const ConfigNode& node,
                const std::string& key);

  ConfigFaults faults_;
  const SectionBinding& config_;
};

}  // namespace fovea::detail
