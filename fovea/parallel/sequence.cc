// B batch, N tokens of a region, n of a rank, D width.
#include "fovea/parallel/sequence.h"

#include <utility>

#include "fovea/core/error.h"
#include "fovea/nn/attention_core.h"
#include "fovea/nn/forward_context.h"
#include "fovea/parallel/ring_attention.h"

namespace fovea::parallel {
namespace {

using nn::UnitForward;
using Tensors = std::vector<at::Tensor>;

constexpr int64_t kQkvBlocks = 3;

nn::UnitImpl& unit_at(const nn::UnitsByPath& units, const std::string& path) {
  const auto* found = path.empty() ? nullptr : units.find(path);
  FOVEA_CHECK(found != nullptr,
              "the model's parallel partitioning names the unit {}, which is none", path);
  return **found;
}

// Some heads of all tokens between qkv and what stands behind the heads.
void exchange_heads(const nn::UnitImpl& unit, nn::AttentionCore& attention,
                    const SequenceGroups& groups) {
  const Exchange exchange{groups.cp, "heads of " + unit.path()};
  attention.tokens_to_heads = [exchange](const at::Tensor& qkv) {
    return exchange.tokens_to_features(qkv, kQkvBlocks).narrow(1, 0, region_tokens());
  };
  attention.heads_to_tokens = [exchange, &groups](const at::Tensor& x) {
    return exchange.features_to_tokens(pad_tokens(x, groups.padded_tokens()), 1);
  };
}

void attend_in_ring(const nn::UnitImpl& unit, nn::AttentionCore& attention,
                    const SequenceGroups& groups) {
  const auto what = "keys of " + unit.path();
  attention.attention_elsewhere = [&groups, what](const at::Tensor& q, const at::Tensor& k,
                                                  const at::Tensor& v, double scale,
                                                  const at::Tensor& key_mask) {
    return ring_attention({groups.cp, what, region_tokens()}, q, k, v, scale, key_mask);
  };
}

void set_up(nn::UnitImpl& unit, const SequenceGroups& groups) {
  auto* attention = dynamic_cast<nn::HasAttention*>(&unit);
  if (attention && groups.cp.size() > 1) {
    auto& core = attention->attention_core();
    groups.cp_method == CpMethod::kRing ? attend_in_ring(unit, core, groups)
                                        : exchange_heads(unit, core, groups);
  }
  if (!unit.is_one_for_all_tokens()) return;
  // Its gradient comes from the tokens of all ranks.
  const Exchange over_cp{groups.cp, unit.path()}, over_sp{groups.sp, unit.path()};
  unit.around_forward.push_back(
      [over_cp, over_sp](const UnitForward& forward, const Tensors& inputs) {
        return over_sp.sum_gradient(over_cp.sum_gradient(forward(inputs)));
      });
}

}  // namespace

CpMethod cp_method_of(const std::string& name) {
  return name == "ring" ? CpMethod::kRing : CpMethod::kAllToAll;
}

int64_t region_tokens() {
  const auto tokens = nn::forward_context().sequence_length;
  FOVEA_CHECK(tokens > 0, "a shared sequence is asked for outside of its first and last unit");
  return tokens;
}

int64_t SequenceGroups::padded_tokens() const {
  const auto ranks = cp.size() * sp.size();
  return (region_tokens() + ranks - 1) / ranks * ranks;
}

at::Tensor SequenceGroups::enter(const at::Tensor& x) const {
  nn::forward_context().sequence_length = x.size(1);
  const auto padded = pad_tokens(x, padded_tokens());
  const Exchange over_cp{cp, "tokens of cp"}, over_sp{sp, "tokens"};
  return over_sp.split(over_cp.split(padded, 1), 1);
}

at::Tensor SequenceGroups::leave(const at::Tensor& x) const {
  const Exchange over_cp{cp, "tokens of cp"}, over_sp{sp, "tokens"};
  const auto tokens = std::exchange(nn::forward_context().sequence_length, 0);
  return over_cp.join(over_sp.join(x, 1), 1).narrow(1, 0, tokens);
}

at::Tensor SequenceGroups::before_columns(const at::Tensor& x) const {
  const auto gathered = Exchange{sp, "tokens"}.gather(x, 1);
  return cp.size() > 1 ? gathered : gathered.narrow(1, 0, region_tokens());
}

at::Tensor SequenceGroups::after_rows(const at::Tensor& x) const {
  const auto padded = cp.size() > 1 ? x : pad_tokens(x, padded_tokens());
  return Exchange{sp, "tokens"}.scatter_sum(padded, 1);
}

std::vector<std::string> share_out_tokens(torch::nn::Module& model,
                                          const Partitioning& partitioning,
                                          const SequenceGroups& groups) {
  const auto units = nn::units_of(model);
  std::vector<std::string> paths;
  for (const auto& region : partitioning.regions) {
    for (const auto& path : region.units) {
      for (auto* inner : nn::units_of(unit_at(units, path)).values()) set_up(*inner, groups);
      paths.push_back(path);
    }
    unit_at(units, region.units.front())
        .around_forward.push_back([&groups](const UnitForward& forward, const Tensors& inputs) {
          auto own = inputs;
          own[0] = groups.enter(inputs[0]);
          return forward(own);
        });
    unit_at(units, region.units.back())
        .around_forward.push_back([&groups](const UnitForward& forward, const Tensors& inputs) {
          return groups.leave(forward(inputs));
        });
  }
  return paths;
}

}  // namespace fovea::parallel
