// Statistics as Triton's extension tells them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "fovea/serve/model_statistics.h"

namespace fovea::serve {

// One item of "model_stats".
nlohmann::ordered_json statistics_json(const std::string& name, const StatisticsSnapshot& all);

}  // namespace fovea::serve
