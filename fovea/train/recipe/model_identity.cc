#include "fovea/train/recipe/model_identity.h"

#include <string_view>

#include "fovea/config/config.h"
#include "fovea/files/sha256.h"

namespace fovea::train {
namespace {

constexpr size_t kMaxIdentity = 160;

struct IdentifiedShape {
  models::ModelConfig model;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
  }
};

}  // namespace

std::string model_identity(const models::ModelConfig& model) {
  constexpr std::string_view kPrefix = "model.";
  std::string text(model.name());
  for (const auto& change : config_diff(IdentifiedShape(), IdentifiedShape{model})) {
    if (!change.b || change.key == "model.name") continue;
    text += fmt::format(" {}={}", change.key.substr(kPrefix.size()), *change.b);
  }
  if (text.size() <= kMaxIdentity) return text;
  return text.substr(0, text.rfind(' ', kMaxIdentity)) + " ... " + sha256_of(text).substr(0, 12);
}

}  // namespace fovea::train
