#include "fovea/elastic/held_slices.h"

#include <fmt/ranges.h>

#include "fovea/core/error.h"
#include "fovea/elastic/relay_plan.h"

namespace fovea::elastic {
namespace {

using checkpoint::Box;

bool contains(const Box& outer, const Box& inner) {
  if (inner.offset.size() != outer.offset.size() || inner.size.size() != outer.size.size()) {
    return false;
  }
  for (size_t d = 0; d < outer.size.size(); ++d) {
    const auto first = inner.offset[d] - outer.offset[d];
    if (first < 0 || inner.size[d] < 0 || first > outer.size[d] ||
        inner.size[d] > outer.size[d] - first) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string SliceName::key() const {
  return fmt::format("{}/{}@{}+{}", part, name, fmt::join(box.offset, ","),
                     fmt::join(box.size, ","));
}

HeldSlices::HeldSlices(const checkpoint::State& held) {
  for (const auto part : checkpoint::kParts) {
    for (auto& slice : slices_of(held, part)) {
      slices_[{std::string(part), slice.name}].push_back(std::move(slice));
    }
  }
}

at::Tensor HeldSlices::find(const SliceName& wanted) const {
  const auto found = slices_.find({wanted.part, wanted.name});
  if (found != slices_.end()) {
    for (const auto& slice : found->second) {
      if (contains(slice.box, wanted.box)) {
        return checkpoint::part_of_box(slice.values, slice.box, wanted.box);
      }
    }
  }
  fail<DataError>("{} '{}' [{}] of [{}] is not here", wanted.part, wanted.name,
                  fmt::join(wanted.box.offset, ", "), fmt::join(wanted.box.size, ", "));
}

}  // namespace fovea::elastic
