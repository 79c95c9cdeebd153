// Changes to a config as trees: a map of some of its keys over a map of all of them.
#pragma once

#include <string>
#include <string_view>

#include "fovea/config/binding.h"
#include "fovea/config/node.h"

namespace fovea::detail {

// Puts `changes` into `node`, which holds all keys of `binding` (to_node). See changed_config in
// config.h for what happens to sections. Keys that the config has not are put in too: reading
// reports them.
void merge_changes(const ConfigBinding& binding, const ConfigNode& changes, ConfigNode& node);

// `node` is the tree `before` with overrides put in. Where they chose another alternative of a
// OneOf, its map loses the keys of `before` that the old alternative knows and the new one does
// not. Keys that an override gave, and those that neither knows, stay for reading to report.
void drop_old_keys(const ConfigBinding& binding, const ConfigNode& before, ConfigNode& node);

// null, "", [] or {}: what turns a key off.
bool says_nothing(const ConfigNode& value);

// The entry of that key, which is there or is added.
void put_value(ConfigNode& map, const std::string& key, ConfigNode value);

// Puts `value` where the key `a.b.0.c` says, with maps where there are none yet. source: what
// messages call the change. Throws ConfigError: no names joined by dots, an index that is none of a
// list that is there.
void put_at(ConfigNode& root, std::string_view key, ConfigNode value, const std::string& source);

// Marks bare scalars as strings where they would not be plain in every place of a YAML file
// (`blocks.*`, `a, b`), so that the tree can be written in another layout than it was read in.
void quote_words(ConfigNode& node);

}  // namespace fovea::detail
