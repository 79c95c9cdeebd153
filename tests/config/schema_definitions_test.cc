#include "fovea/config/schema_definitions.h"

#include <gtest/gtest.h>

#include <string>

namespace fovea::detail {
namespace {

using Json = nlohmann::ordered_json;

// The schema with each $ref replaced by what it names.
Json expanded(Json schema, const Json& definitions) {
  if (schema.is_array()) {
    for (auto& item : schema) item = expanded(item, definitions);
    return schema;
  }
  if (!schema.is_object()) return schema;
  if (const auto found = schema.find("$ref"); found != schema.end()) {
    const auto name = found->get<std::string>().substr(std::string("#/$defs/").size());
    auto body = definitions.at(name);
    schema.erase("$ref");
    body.update(schema);
    return expanded(body, definitions);
  }
  for (auto& [key, value] : schema.items()) value = expanded(value, definitions);
  return schema;
}

Json long_number(const std::string& help) {
  return {{"type", "number"},
          {"minimum", 0},
          {"enum", {std::string(60, 'a'), std::string(60, 'b'), std::string(60, 'c')}},
          {"description", help},
          {"default", 3}};
}

TEST(SchemaDefinitionsTest, WhatStandsInSeveralPlacesStandsOnce) {
  Json transform = {{"title", "name: flip"},
                    {"type", "object"},
                    {"properties", {{"p", long_number("how often")}}}};
  const Json list = {{"type", "array"}, {"items", {{"oneOf", {transform}}}}};
  Json schema = {{"title", "a recipe"}, {"type", "object"}};
  for (const char* split : {"train", "val"}) {
    schema["properties"][split] = {
        {"type", "object"},
        {"description", split},
        {"properties", {{"transforms", list}, {"rate", long_number(split)}}}};
  }
  const auto shared = share_definitions(schema);
  const auto& properties = shared["properties"];
  EXPECT_EQ(properties["train"]["description"], "train") << "help stays in its place";
  EXPECT_NE(properties["train"].dump(), properties["val"].dump());
  EXPECT_TRUE(shared.contains("$defs"));
  EXPECT_LT(shared.dump().size(), schema.dump().size());
  auto whole = shared;
  whole.erase("$defs");
  // Equal as values: what belongs to a place comes behind what it names.
  EXPECT_EQ(nlohmann::json(expanded(whole, shared["$defs"])), nlohmann::json(schema));
}

TEST(SchemaDefinitionsTest, WhatStandsOnceOrIsSmallStays) {
  const Json schema = {
      {"type", "object"},
      {"properties",
       {{"a", long_number("one")}, {"b", {{"type", "string"}}}, {"c", {{"type", "string"}}}}}};
  EXPECT_EQ(nlohmann::json(share_definitions(schema)), nlohmann::json(schema));
}

}  // namespace
}  // namespace fovea::detail
