#include "fovea/train/tasks/own_loss.h"

#include <fmt/ranges.h>

#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/own_parts.h"

namespace fovea::train {
namespace {

OwnParts<OwnLoss>& registered_losses() {
  static OwnParts<OwnLoss> all;
  return all;
}

}  // namespace

void register_loss(const std::string& name, OwnLoss loss) {
  registered_losses().add(name, std::move(loss));
}

const OwnLoss& own_loss(const std::string& name) {
  return registered_losses().find(name, "task.own_loss", "fovea.register_loss");
}

at::Tensor own_losses(const std::string& name, const at::Tensor& logits, const at::Tensor& labels) {
  const auto losses = own_loss(name)(logits, labels);
  FOVEA_CHECK(losses.defined() && losses.dim() == 1 && losses.size(0) == logits.size(0) &&
                  losses.scalar_type() == at::kFloat,
              "the loss '{}' gives [{}] of {} samples; expected [B] float32, a loss for each of "
              "them: reduction='none'",
              name,
              losses.defined() ? fmt::format("{}", fmt::join(losses.sizes(), ", ")) : "nothing",
              logits.size(0));
  return losses;
}

}  // namespace fovea::train
