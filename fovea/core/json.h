// JSON to text and back, compiled once: the header's writer and parser cost each file that uses
// them seconds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fovea {

// indent: spaces for each level; -1: all on one line. Bytes that are not UTF-8, as in names of
// files, become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// `is_discarded()` where the text is not JSON.
nlohmann::json parse_json(std::string_view text);

}  // namespace fovea
