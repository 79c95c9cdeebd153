#include "fovea/nn/block_linears.h"

#include "fovea/nn/adaln.h"
#include "fovea/nn/block.h"

namespace fovea::nn {
namespace {

bool is_block(const torch::nn::Module& module) {
  return dynamic_cast<const TransformerBlockImpl*>(&module) != nullptr ||
         dynamic_cast<const ConditionedBlockImpl*>(&module) != nullptr;
}

}  // namespace

NamedLinears block_linears(UnitImpl& model) {
  NamedLinears found;
  for (const auto& block : model.modules(/*include_self=*/false)) {
    if (!is_block(*block)) continue;
    for (const auto& part : block->modules()) {
      const bool is_chosen = dynamic_cast<const HasAttention*>(part.get()) != nullptr ||
                             dynamic_cast<const MlpImpl*>(part.get()) != nullptr;
      if (!is_chosen) continue;
      for (const auto& child : part->children()) {
        auto* linear = dynamic_cast<LinearImpl*>(child.get());
        if (linear != nullptr) found.emplace_back(linear->path(), linear);
      }
    }
  }
  return found;
}

}  // namespace fovea::nn
