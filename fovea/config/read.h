// From the tree of a recipe to a typed config, collecting every fault.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/config/node.h"

namespace fovea::detail {

struct ConfigFault {
  ConfigOrigin origin;
  std::string text;  // the whole line of the message
};

class ConfigReader {
 public:
  // config: whose keys are suggested, across its sections; outlives this.
  ConfigReader(std::string source, const SectionBinding& config);

  void read_root(const SectionBinding& config, const ConfigNode& root);
  void add_fault(const ConfigOrigin& origin, const std::string& key, const std::string& message);
  // Throws ConfigError if there was any fault: those of the file by line, then those of the command
  // line.
  void throw_faults();

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

  // node: null where the section is not in the recipe. `own` is read beside the fields: the tag of
  // a OneOf.
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
  void validate(const SectionBinding& section, const std::string& key);
  bool is_of_file(const ConfigOrigin& origin) const;
  bool concerns_fault(const std::string& section_key, const std::string& issue_key,
                      const std::string& message) const;

  void expected(const ConfigBinding& binding, const FieldOptions& options, const ConfigNode& node,
                const std::string& key);
  ConfigOrigin origin_of(const std::string& key) const;

  ConfigOrigin source_;
  const SectionBinding& config_;
  std::map<std::string, ConfigOrigin> origins_;  // by full key
  std::vector<ConfigFault> faults_;
  std::vector<std::string> faulty_keys_;  // full keys whose value could not be read
  size_t num_faults_ = 0;
};

}  // namespace fovea::detail
