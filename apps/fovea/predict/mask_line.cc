#include "apps/fovea/predict/mask_line.h"

#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/fovea/output.h"
#include "fovea/core/json.h"

namespace fovea::app {
namespace {

std::string text_line(const PredictedMask& mask, const train::Inference& inference) {
  const auto total = static_cast<double>(c10::multiply_integers(mask.sides));
  auto text = fmt::format("{} -> {}\n ", mask.input, fmt::join(mask.files, ", "));
  for (size_t label = 0; label < mask.voxels.size(); ++label) {
    text +=
        fmt::format(" {} {} ({:.2f} %)", inference.class_name(static_cast<int64_t>(label)),
                    mask.voxels[label], 100.0 * static_cast<double>(mask.voxels[label]) / total);
  }
  return text + "\n";
}

std::string json_line(const PredictedMask& mask, const train::Inference& inference) {
  nlohmann::ordered_json voxels = nlohmann::ordered_json::array();
  for (size_t label = 0; label < mask.voxels.size(); ++label) {
    voxels.push_back({{"class", inference.class_name(static_cast<int64_t>(label))},
                      {"voxels", mask.voxels[label]}});
  }
  const nlohmann::ordered_json line = {{"input", mask.input},
                                       {"files", mask.files},
                                       {"sides", mask.sides},
                                       {"classes", std::move(voxels)}};
  return json_text(line) + "\n";
}

}  // namespace

void say_mask(const PredictedMask& mask, const train::Inference& inference, bool as_json) {
  if (as_json) {
    say_as_is("{}", json_line(mask, inference));
  } else {
    say("{}", text_line(mask, inference));
  }
}

}  // namespace fovea::app
