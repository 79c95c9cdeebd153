#include "fovea/config/schema.h"

#include <algorithm>
#include <cmath>

#include "fovea/config/describe.h"
#include "fovea/config/node.h"
#include "fovea/config/schema_definitions.h"

namespace fovea::detail {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      return node.scalar.empty() ? Json(nullptr) : Json(node.scalar);
    case ConfigNode::Kind::kScalar:
      if (node.quoted) return node.scalar;
      return Json::accept(node.scalar) ? Json::parse(node.scalar) : Json(node.scalar);
    case ConfigNode::Kind::kList: {
      Json list = Json::array();
      for (const auto& child : node.children) list.push_back(to_json(child));
      return list;
    }
    case ConfigNode::Kind::kMap:
      break;
  }
  Json map = Json::object();
  for (size_t i = 0; i < node.keys.size(); ++i) map[node.keys[i]] = to_json(node.children[i]);
  return map;
}

Json number_json(double value) {
  const bool is_whole = std::abs(value) <= 0x1p53 && std::trunc(value) == value;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

Json scalar_schema(const ScalarBinding& scalar, const FieldOptions& declared) {
  const auto options = bounded(scalar, declared);
  constexpr const char* kTypes[] = {"boolean", "integer", "number", "string"};
  Json schema = {{"type", kTypes[scalar.target.index()]}};
  if (options.min)
    schema[options.exclusive_min ? "exclusiveMinimum" : "minimum"] = number_json(*options.min);
  if (options.max)
    schema[options.exclusive_max ? "exclusiveMaximum" : "maximum"] = number_json(*options.max);
  if (!options.choices.empty()) schema["enum"] = options.choices;
  return schema;
}

Json value_schema(const ConfigBinding& binding, const FieldOptions& options, bool in_list);

// Adds properties and required keys of a section to an object schema.
void add_properties(const SectionBinding& section, Json& schema) {
  std::vector<std::string> required;
  const auto fields = section.fields();
  if (section.has_presets()) {
    schema["properties"]["preset"] = {{"type", "string"},
                                      {"description", "sets the defaults of this section"}};
  }
  for (const ConfigField& field : fields) {
    Json value = value_schema(*field.binding, field.options, false);
    const auto kind = field.binding->kind();
    value["description"] =
        field.help + (field.options.unit.empty() ? "" : " [" + field.options.unit + "]");
    if (kind != ConfigBinding::Kind::kSection && kind != ConfigBinding::Kind::kOneOf) {
      if (!field.options.required)
        value["default"] = to_json(to_node(*field.binding, field.options));
    }
    if (field.options.required) required.push_back(field.name);
    schema["properties"][field.name] = std::move(value);
  }
  if (section.has_presets()) {
    Json& preset = schema["properties"]["preset"];
    std::vector<std::string> names = section.preset_names();
    const bool may_be_empty = preset.contains("default") && preset["default"] == "";
    if (may_be_empty) names.insert(names.begin(), "");
    preset["enum"] = names;
  }
  for (const auto& name : required) schema["required"].push_back(name);
}

Json object_schema() {
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

Json section_object(const SectionBinding& section) {
  Json schema = object_schema();
  add_properties(section, schema);
  return schema;
}

Json one_of_schema(const OneOfBinding& one_of, bool in_list) {
  Json alternatives = Json::array();
  Json short_forms = Json::array();
  const auto names = one_of.names();
  const std::string tag(one_of.tag());
  for (size_t i = 0; i < names.size(); ++i) {
    const ConfigPrototype other = one_of.prototype(i);
    const bool is_default = i == one_of.index() && !in_list;
    Json schema = object_schema();
    schema["title"] = tag + ": " + names[i];
    schema["properties"][tag] = {{"const", names[i]}};
    if (!is_default) schema["required"] = {tag};
    const auto chosen = is_default ? one_of.chosen() : nullptr;
    add_properties(chosen ? *chosen : static_cast<const SectionBinding&>(*other.binding), schema);
    const size_t own_required = schema.contains("required") ? schema["required"].size() : 0;
    if (own_required <= (is_default ? 0u : 1u)) short_forms.push_back(names[i]);
    alternatives.push_back(std::move(schema));
  }
  if (!short_forms.empty()) alternatives.push_back({{"enum", short_forms}});
  return {{"oneOf", std::move(alternatives)}};
}

Json optional_schema(const OptionalBinding& optional, const FieldOptions& options, bool in_list) {
  const ConfigPrototype inner = optional.prototype();
  Json alternatives = Json::array();
  alternatives.push_back(value_schema(*inner.binding, options, in_list));
  alternatives.push_back({{"type", "null"}});
  if (!options.null_word.empty()) alternatives.push_back({{"const", options.null_word}});
  return {{"anyOf", std::move(alternatives)}};
}

Json value_schema(const ConfigBinding& binding, const FieldOptions& options, bool in_list) {
  switch (binding.kind()) {
    case ConfigBinding::Kind::kScalar:
      return scalar_schema(static_cast<const ScalarBinding&>(binding), options);
    case ConfigBinding::Kind::kOptional:
      return optional_schema(static_cast<const OptionalBinding&>(binding), options, in_list);
    case ConfigBinding::Kind::kList: {
      const ConfigPrototype element = static_cast<const ListBinding&>(binding).prototype();
      Json list = {{"type", "array"}, {"items", value_schema(*element.binding, options, true)}};
      if (!options.one_is_list) return list;
      return {{"anyOf", {value_schema(*element.binding, options, true), std::move(list)}}};
    }
    case ConfigBinding::Kind::kMap: {
      const ConfigPrototype element = static_cast<const MapBinding&>(binding).prototype();
      return {{"type", "object"},
              {"additionalProperties", value_schema(*element.binding, options, false)}};
    }
    case ConfigBinding::Kind::kSection:
      return section_object(static_cast<const SectionBinding&>(binding));
    case ConfigBinding::Kind::kOneOf:
      return one_of_schema(static_cast<const OneOfBinding&>(binding), in_list);
    case ConfigBinding::Kind::kTree:
      return {{"type", "object"}};
  }
  return {};
}

}  // namespace

Json section_schema(const SectionBinding& config, const std::string& title) {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  schema.update(section_object(config));
  return share_definitions(schema);
}

}  // namespace fovea::detail
