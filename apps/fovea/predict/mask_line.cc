#include "apps/fovea/predict/mask_line.h"

#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/fovea/output.h"
#include "fovea/core/json.h"
#include "fovea/data/pictures/pictures.h"

namespace fovea::app {
namespace {

// "#e69f00"; null: pictures leave the class as it is.
nlohmann::ordered_json color_text(int64_t label) {
  if (label == 0) return nullptr;
  const auto [red, green, blue] = data::class_color(label);
  return fmt::format("#{:02x}{:02x}{:02x}", red, green, blue);
}

std::string text_line(const PredictedMask& mask, const train::Inference& inference) {
  auto text = fmt::format("{} -> {}\n ", mask.input, fmt::join(mask.files, ", "));
  for (size_t label = 0; label < mask.voxels.size(); ++label) {
    text += fmt::format(" {} {} ({:.2f} %)", inference.class_name(static_cast<int64_t>(label)),
                        mask.voxels[label], 100.0 * mask.share(label));
  }
  return text + "\n";
}

std::string json_line(const PredictedMask& mask, const train::Inference& inference) {
  nlohmann::ordered_json voxels = nlohmann::ordered_json::array();
  for (size_t label = 0; label < mask.voxels.size(); ++label) {
    voxels.push_back({{"class", inference.class_name(static_cast<int64_t>(label))},
                      {"voxels", mask.voxels[label]},
                      {"share", mask.share(label)},
                      {"color", color_text(static_cast<int64_t>(label))}});
  }
  const nlohmann::ordered_json line = {{"input", mask.input},
                                       {"files", mask.files},
                                       {"sides", mask.sides},
                                       {"classes", std::move(voxels)}};
  return json_text(line) + "\n";
}

}  // namespace

double PredictedMask::share(size_t label) const {
  return static_cast<double>(voxels[label]) / static_cast<double>(c10::multiply_integers(sides));
}

void say_mask(const PredictedMask& mask, const train::Inference& inference, bool as_json) {
  if (as_json) {
    say_as_is("{}", json_line(mask, inference));
  } else {
    say("{}", text_line(mask, inference));
  }
}

}  // namespace fovea::app
