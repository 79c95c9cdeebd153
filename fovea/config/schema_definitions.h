// JSON schemas without repetition.
#pragma once

#include <nlohmann/json.hpp>

namespace fovea::detail {

// The same schema with each part that stands in several places once, under $defs, and a $ref to it
// in those places; help and defaults stay where they are.
nlohmann::ordered_json share_definitions(const nlohmann::ordered_json& schema);

}  // namespace fovea::detail
