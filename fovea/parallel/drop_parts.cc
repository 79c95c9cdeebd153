#include "fovea/parallel/drop_parts.h"

#include "fovea/core/error.h"

namespace fovea::parallel {
namespace {

using kernels::DropPart;

constexpr int64_t kTokensDim = 1, kHeadsDim = 1, kFeaturesDim = -1;

// Of what two groups share out one after the other: the first one outside.
DropPart part_of(int64_t dim, const Communicator& outer, const Communicator& inner) {
  return {.dim = dim,
          .index = outer.rank() * inner.size() + inner.rank(),
          .count = outer.size() * inner.size()};
}

std::vector<DropPart> parts_of(nn::DropOf of, const UnitRanks& ranks) {
  switch (of) {
    case nn::DropOf::kTokens:
      return {part_of(kTokensDim, ranks.cp, ranks.sp)};
    case nn::DropOf::kHidden: {
      // In front of a split Linear the ranks of sp have gathered their tokens.
      const auto& inner = ranks.layers.size() > 1 ? one_rank() : ranks.sp;
      return {part_of(kFeaturesDim, ranks.layers, one_rank()),
              part_of(kTokensDim, ranks.cp, inner)};
    }
    case nn::DropOf::kHeads:
      // Ranks of cp exchange tokens for heads. Those of a ring don't, and draw no such drops.
      return {part_of(kHeadsDim, ranks.layers, ranks.cp)};
  }
  fail("a drop layer of kind {} is not in the table", static_cast<int>(of));
}

}  // namespace

void share_out_drops(nn::UnitImpl& unit, const UnitRanks& ranks) {
  auto& of_unit = unit.drop_parts.emplace();
  for (const auto& [name, of] : unit.drops()) {
    auto& parts = of_unit[name];
    for (const auto& part : parts_of(of, ranks)) {
      if (part.count > 1) parts.push_back(part);
    }
  }
}

}  // namespace fovea::parallel
