#include "fovea/core/json.h"

#include <limits>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea {
namespace {

using nlohmann::json;

constexpr uint64_t kMostInteger = std::numeric_limits<int64_t>::max();

// "the text \"ten\"", "a list of 3": short, whatever stands there.
std::string shown_json(const json& value) {
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  return printable_start(json_text(value));
}

// In the library's words, without the name that it gives to its error.
[[noreturn]] void fail_syntax(const std::string& source, const std::exception& error) {
  const std::string_view what = error.what();
  fail<DataError>(
      "{}: not JSON: {}", source,
      printable_start(what.substr(what.find("] ") == what.npos ? 0 : what.find("] ") + 2), 300));
}

// What json::parse builds, with checks on the way. json::parse takes a callback for such checks,
// but looks through the whole of an object then whenever one of its members ends.
class CheckedBuilder : public nlohmann::json_sax<json> {
 public:
  CheckedBuilder(json& value, const std::string& source, int max_depth, RepeatedNames repeated)
      : builder_(value), source_(source), max_depth_(max_depth), repeated_(repeated) {}

  bool null() override { return builder_.null(); }
  bool boolean(bool value) override { return builder_.boolean(value); }
  bool number_integer(number_integer_t value) override { return builder_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return builder_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    return builder_.number_float(value, text);
  }
  bool string(string_t& value) override { return builder_.string(value); }
  bool binary(binary_t& value) override { return builder_.binary(value); }
  bool start_object(std::size_t size) override {
    enter();
    if (repeated_ == RepeatedNames::kRefused) names_.emplace_back();
    return builder_.start_object(size);
  }
  bool key(string_t& name) override {
    if (repeated_ == RepeatedNames::kRefused && !names_.back().insert(name).second)
      fail<DataError>("{}: names '{}' twice", source_, printable_start(name));
    return builder_.key(name);
  }
  bool end_object() override {
    --depth_;
    if (repeated_ == RepeatedNames::kRefused) names_.pop_back();
    return builder_.end_object();
  }
  bool start_array(std::size_t size) override {
    enter();
    return builder_.start_array(size);
  }
  bool end_array() override {
    --depth_;
    return builder_.end_array();
  }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    fail_syntax(source_, error);
  }

 private:
  void enter() {
    if (++depth_ > max_depth_)
      fail<DataError>("{}: nested deeper than {} levels", source_, max_depth_);
  }

  nlohmann::detail::json_sax_dom_parser<json> builder_;
  const std::string& source_;
  const int max_depth_;
  const RepeatedNames repeated_;
  int depth_ = 0;
  std::vector<std::set<std::string>> names_;  // of each object that is open
};

}  // namespace

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

json parse_json(std::string_view text, int max_depth) {
  try {
    return parse_json(text, std::string(), max_depth);
  } catch (const DataError&) {
    return json::value_t::discarded;
  }
}

json parse_json(std::string_view text, const std::string& source, int max_depth,
                RepeatedNames repeated) {
  json value;
  CheckedBuilder builder(value, source, max_depth, repeated);
  try {
    json::sax_parse(text, &builder);
    return value;
  } catch (const json::exception& error) {
    fail_syntax(source, error);
  }
}

void JsonValue::refuse(std::string_view expected) const {
  fail<DataError>("{}: found {}; expected {}", where_, shown_json(*value_), expected);
}

JsonValue JsonValue::below(const json& value, std::string_view key) const {
  JsonValue found(value,
                  fmt::format("{}{}{}", where_, is_below_ ? "." : ": ", printable_start(key)));
  found.is_below_ = true;
  return found;
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  return found == value_->end() ? std::nullopt : std::optional(below(*found, key));
}

JsonValue JsonValue::at(std::string_view key) const {
  auto found = find(key);
  if (!found) fail<DataError>("{}: no \"{}\"; it is damaged, or of another program", where_, key);
  return *std::move(found);
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  if (!value_->is_object()) refuse("an object");
  std::vector<std::pair<std::string, JsonValue>> members;
  for (const auto& [key, value] : value_->items()) members.emplace_back(key, below(value, key));
  return members;
}

std::vector<JsonValue> JsonValue::items() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<JsonValue> items;
  for (size_t i = 0; i < value_->size(); ++i)
    items.push_back(below((*value_)[i], std::to_string(i)));
  return items;
}

int64_t JsonValue::integer() const {
  const bool fits = value_->is_number_integer() &&
                    !(value_->is_number_unsigned() && value_->get<uint64_t>() > kMostInteger);
  if (!fits) refuse("a whole number");
  return value_->get<int64_t>();
}

uint64_t JsonValue::count() const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > kMostInteger) {
    refuse("a whole number from 0");
  }
  return value_->get<uint64_t>();
}

double JsonValue::number() const {
  if (value_->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value_->is_number()) refuse("a number");
  return value_->get<double>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

std::string JsonValue::text() const {
  if (!value_->is_string()) refuse("a text");
  return value_->get<std::string>();
}

std::vector<int64_t> JsonValue::integers() const {
  std::vector<int64_t> values;
  for (const auto& item : items()) values.push_back(item.integer());
  return values;
}

std::vector<double> JsonValue::numbers() const {
  std::vector<double> values;
  for (const auto& item : items()) values.push_back(item.number());
  return values;
}

std::vector<std::string> JsonValue::texts() const {
  std::vector<std::string> values;
  for (const auto& item : items()) values.push_back(item.text());
  return values;
}

void JsonValue::read(std::string_view key, int64_t& field) const {
  if (const auto found = find(key)) field = found->integer();
}

void JsonValue::read(std::string_view key, double& field) const {
  if (const auto found = find(key)) field = found->number();
}

void JsonValue::read(std::string_view key, std::string& field) const {
  if (const auto found = find(key)) field = found->text();
}

void JsonValue::read(std::string_view key, std::vector<std::string>& field) const {
  if (const auto found = find(key)) field = found->texts();
}

}  // namespace fovea
