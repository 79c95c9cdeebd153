#include "fovea/train/recipe/int8_ranges.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/files.h"
#include "fovea/core/json.h"

namespace fovea::train {
namespace {

constexpr const char* kFormat = "fovea.int8_ranges";
constexpr int64_t kVersion = 1;
constexpr uint64_t kMostBytes = 16 << 20;

float end_of_range(const JsonValue& value, bool is_least) {
  const double number = value.number();
  const bool is_finite = std::abs(number) <= std::numeric_limits<float>::max();  // nor NaN
  if (!is_finite || (is_least ? number > 0 : number < 0)) {
    value.refuse(is_least ? "a finite number, 0 at most" : "a finite number, 0 at least");
  }
  return static_cast<float>(number);
}

}  // namespace

std::string format_int8_ranges(const Int8Ranges& ranges) {
  nlohmann::ordered_json file = {{"format", kFormat},
                                 {"version", kVersion},
                                 {"rule", ranges.rule},
                                 {"samples", ranges.num_samples},
                                 {"layers", nlohmann::ordered_json::object()}};
  for (const auto& [name, layer] : ranges.layers) {
    file["layers"][name] = {
        {"least", layer.inputs.least}, {"largest", layer.inputs.largest}, {"weight", layer.weight}};
  }
  return json_text(file, /*indent=*/1) + "\n";
}

Int8Ranges parse_int8_ranges(const std::string& text, const std::string& source) {
  constexpr int kMostDepth = 8;
  const auto parsed = parse_json(text, source, kMostDepth, RepeatedNames::kRefused);
  const JsonValue file(parsed, source);
  if (file.at("format").text() != kFormat) file.at("format").refuse(kFormat);
  if (file.at("version").integer() != kVersion) {
    file.at("version").refuse("1; `fovea calibrate` of this version measures them again");
  }
  Int8Ranges ranges{.rule = file.at("rule").text(),
                    .num_samples = file.at("samples").integer(),
                    .layers = {},
                    .source = source};
  for (const auto& [name, layer] : file.at("layers").members()) {
    ranges.layers[name] = {.inputs = {.least = end_of_range(layer.at("least"), true),
                                      .largest = end_of_range(layer.at("largest"), false)},
                           .weight = layer.at("weight").text()};
  }
  return ranges;
}

Int8Ranges read_int8_ranges(const std::string& path) {
  return parse_int8_ranges(read_file(path, kMostBytes), path);
}

std::string int8_ranges_beside(const std::string& weights) {
  const std::filesystem::path path = weights;
  const auto folder = is_folder(path) ? path : path.parent_path();
  return (folder / (path.stem().string() + ".int8_ranges.json")).string();
}

}  // namespace fovea::train
