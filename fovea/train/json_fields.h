// Reading JSON files of a run folder, which may be damaged, cut short or from elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace fovea::train {

inline constexpr size_t kMaxJsonBytes = size_t{256} << 20;

// Throws DataError naming `source` where the text is not one JSON object, or is nested deeply.
nlohmann::json parse_json_object(const std::string& text, const std::string& source);

// Values by form; a wrong form is a DataError naming `key`. A null stands for a number that is not
// finite, as JSON has none.
int64_t integer_of(const nlohmann::json& value, const char* key);
double number_of(const nlohmann::json& value, const char* key);
std::string string_of(const nlohmann::json& value, const char* key);

// Set `field` where `object` has the key; throw DataError where its form is wrong.
void read_field(const nlohmann::json& object, const char* key, int64_t& field);
void read_field(const nlohmann::json& object, const char* key, double& field);
void read_field(const nlohmann::json& object, const char* key, std::string& field);

// The list under `key`; empty where there is none.
const nlohmann::json& list_field(const nlohmann::json& object, const char* key);

}  // namespace fovea::train
