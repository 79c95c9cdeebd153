#include "fovea/train/json_fields.h"

#include <limits>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;

// The parser's own recursion-free check: false stops it.
bool is_shallow(int depth, json::parse_event_t, json&) {
  if (depth > kMaxDepth) fail<DataError>("nested deeper than {} levels", kMaxDepth);
  return true;
}

const json* find(const json& object, const char* key) {
  if (!object.is_object()) fail<DataError>("\"{}\" looked for in something that is no object", key);
  const auto place = object.find(key);
  return place == object.end() ? nullptr : &*place;
}

}  // namespace

json parse_json_object(const std::string& text, const std::string& source) {
  try {
    auto value = json::parse(text, is_shallow);
    if (!value.is_object()) fail<DataError>("not a JSON object");
    return value;
  } catch (const json::exception& error) {
    fail<DataError>("{}: damaged: {}", source, error.what());
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", source, error.what());
  }
}

int64_t integer_of(const json& value, const char* key) {
  if (!value.is_number_integer()) fail<DataError>("\"{}\" is no whole number", key);
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    fail<DataError>("\"{}\" is too large", key);
  }
  return value.get<int64_t>();
}

double number_of(const json& value, const char* key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) fail<DataError>("\"{}\" is no number", key);
  return value.get<double>();
}

std::string string_of(const json& value, const char* key) {
  if (!value.is_string()) fail<DataError>("\"{}\" is no text", key);
  return value.get<std::string>();
}

void read_field(const json& object, const char* key, int64_t& field) {
  if (const auto* value = find(object, key)) field = integer_of(*value, key);
}

void read_field(const json& object, const char* key, double& field) {
  if (const auto* value = find(object, key)) field = number_of(*value, key);
}

void read_field(const json& object, const char* key, std::string& field) {
  if (const auto* value = find(object, key)) field = string_of(*value, key);
}

const json& list_field(const json& object, const char* key) {
  static const json empty = json::array();
  const auto* value = find(object, key);
  if (!value) return empty;
  if (!value->is_array()) fail<DataError>("\"{}\" is no list", key);
  return *value;
}

}  // namespace fovea::train
