#include "fovea/config/schema_definitions.h"

#include <cctype>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fovea::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kSmallest = 160;  // bytes of a part that is worth a name
constexpr const char* kReference = "$ref";

// Of what belongs to the place and not to the part.
const std::vector<std::string>& keys_of_place() {
  static const std::vector<std::string> keys = {"description", "default"};
  return keys;
}

// Calls `visit` with each schema right below `schema`, and a word for it: the name of the property.
void for_each_below(Json& schema, const std::string& word,
                    const std::function<void(Json&, const std::string&)>& visit) {
  if (const auto properties = schema.find("properties"); properties != schema.end()) {
    for (auto& [name, value] : properties->items()) visit(value, name);
  }
  for (const char* key : {"items", "additionalProperties"}) {
    const auto found = schema.find(key);
    if (found != schema.end() && found->is_object()) visit(*found, word);
  }
  for (const char* key : {"oneOf", "anyOf"}) {
    const auto found = schema.find(key);
    if (found == schema.end()) continue;
    for (auto& alternative : *found) {
      const auto title = alternative.find("title");
      visit(alternative, title == alternative.end() ? word : title->get<std::string>());
    }
  }
}

// A part and how often it is named.
struct Part {
  Json body;
  std::string word;
  int64_t uses = 0;
  std::string name = {};  // under $defs, once it has one
};

// Parts are numbered from the innermost on: what stands in a part is a part with a lower number, so
// that equal parts have equal texts, however large they are.
class Sharing {
 public:
  Json share(Json schema) {
    collect(schema);
    count_again(schema);
    auto definitions = Json::object();
    put_back(schema, definitions);
    if (!definitions.empty()) schema["$defs"] = sorted(definitions);
    return schema;
  }

 private:
  // Replaces the parts below by their numbers.
  void collect(Json& schema) {
    for_each_below(schema, "",
                   [&](Json& below, const std::string& word) { collect_named(below, word); });
  }

  void collect_named(Json& schema, const std::string& word) {
    for_each_below(schema, word,
                   [&](Json& below, const std::string& inner) { collect_named(below, inner); });
    auto body = schema;
    auto place = Json::object();
    for (const auto& key : keys_of_place()) {
      const auto found = body.find(key);
      if (found == body.end()) continue;
      place[key] = *found;
      body.erase(key);
    }
    const auto text = body.dump();
    if (text.size() < kSmallest) return;
    const auto [entry, is_new] = numbers_.try_emplace(text, parts_.size());
    if (is_new) parts_.push_back({.body = std::move(body), .word = word});
    schema = {{kReference, entry->second}};
    schema.update(place);
  }

  // Uses, counting each part once however often it is used itself.
  void count_again(Json& schema) {
    count_below(schema);
    for (auto& part : parts_) count_below(part.body);
  }

  void count_below(Json& schema) {
    for_each_below(schema, "", [&](Json& below, const std::string&) {
      if (const auto number = below.find(kReference); number != below.end()) {
        parts_[number->get<size_t>()].uses += 1;
      } else {
        count_below(below);
      }
    });
  }

  // Parts that are used once go back to their place, the others under `definitions`.
  void put_back(Json& schema, Json& definitions) {
    for_each_below(schema, "", [&](Json& below, const std::string&) {
      const auto number = below.find(kReference);
      if (number == below.end()) return put_back(below, definitions);
      auto& part = parts_[number->get<size_t>()];
      if (part.uses == 1) {
        auto whole = part.body;
        put_back(whole, definitions);
        below.erase(kReference);
        whole.update(below);
        below = std::move(whole);
        return;
      }
      if (part.name.empty()) {
        part.name = free_name(part.word);
        auto body = part.body;
        definitions[part.name] = nullptr;  // its place among the others
        put_back(body, definitions);
        definitions[part.name] = std::move(body);
      }
      *number = "#/$defs/" + part.name;
    });
  }

  // "name: adamw" -> "adamw"; letters, digits and _ alone, which need no escaping.
  std::string free_name(const std::string& word) {
    auto wanted = word.substr(word.rfind(' ') + 1);
    for (auto& c : wanted) {
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    }
    auto name = wanted;
    for (int i = 2; !taken_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  static Json sorted(const Json& definitions) {
    std::map<std::string, Json> by_name;
    for (const auto& [name, body] : definitions.items()) by_name[name] = body;
    auto result = Json::object();
    for (auto& [name, body] : by_name) result[name] = std::move(body);
    return result;
  }

  std::map<std::string, size_t> numbers_;  // by text
  std::vector<Part> parts_;
  std::set<std::string> taken_;
};

}  // namespace

Json share_definitions(const Json& schema) { return Sharing().share(schema); }

}  // namespace fovea::detail
