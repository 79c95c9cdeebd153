// JSON to text and back, compiled once: the header's writer and parser cost each file that uses
// them seconds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

// indent: spaces for each level; -1: all on one line. Bytes that are not UTF-8, as in names of
// files, become U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

// `is_discarded()` where the text is not JSON, or nested deeper than max_depth.
nlohmann::json parse_json(std::string_view text, int max_depth = 64);
// Of a name that an object has twice, parsers disagree on which one counts.
enum class RepeatedNames { kLastCounts, kRefused };
// Throws DataError naming `source` instead. Takes time in proportion to the text.
nlohmann::json parse_json(std::string_view text, const std::string& source, int max_depth = 64,
                          RepeatedNames repeated = RepeatedNames::kLastCounts);

// A value of a JSON text of others. Whoever reads it says what it should be; where it is another
// thing, a DataError names the file, the keys on the way there, what was found and what was
// expected.
class JsonValue {
 public:
  // `value` outlives it; `source`: the file, as it may stand in messages.
  JsonValue(const nlohmann::json& value, std::string source)
      : value_(&value), where_(std::move(source)) {}

  // A member of an object, which must be there.
  JsonValue at(std::string_view key) const;
  // Nothing where there is none.
  std::optional<JsonValue> find(std::string_view key) const;
  // All members of an object, by name; all values of a list, in order.
  std::vector<std::pair<std::string, JsonValue>> members() const;
  std::vector<JsonValue> items() const;

  int64_t integer() const;
  uint64_t count() const;  // a whole number from 0
  double number() const;   // null, for JSON has no other, is NaN
  bool boolean() const;
  std::string text() const;
  std::vector<int64_t> integers() const;
  std::vector<double> numbers() const;
  std::vector<std::string> texts() const;

  // Sets `field` where the object has such a member.
  void read(std::string_view key, int64_t& field) const;
  void read(std::string_view key, double& field) const;
  void read(std::string_view key, std::string& field) const;
  void read(std::string_view key, std::vector<std::string>& field) const;

  const nlohmann::json& raw() const { return *value_; }
  // "manifest.json: tensors.model": for messages of one's own.
  const std::string& where() const { return where_; }
  // Throws DataError: found this, expected that.
  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  JsonValue below(const nlohmann::json& value, std::string_view key) const;

  const nlohmann::json* value_;
  std::string where_;
  bool is_below_ = false;  // `where_` has a key already
};

}  // namespace fovea
