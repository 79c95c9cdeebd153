#include "fovea/train/tasks/own_loss.h"

#include <fmt/ranges.h>

#include <map>
#include <utility>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

std::map<std::string, OwnLoss>& registered_losses() {
  static std::map<std::string, OwnLoss> all;
  return all;
}

}  // namespace

void register_loss(const std::string& name, OwnLoss loss) {
  registered_losses().insert_or_assign(name, std::move(loss));
}

const OwnLoss& own_loss(const std::string& name) {
  const auto& all = registered_losses();
  const auto found = all.find(name);
  if (found != all.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, loss] : all) names.push_back(known);
  fail<ConfigError>(
      "task.own_loss: found '{}', but this program has registered {}; expected one of these. The "
      "program fovea knows none: train with fovea.train in a Python that calls "
      "fovea.register_loss(\"{}\")",
      name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")), name);
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
