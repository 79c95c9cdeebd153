// What a process holds of a run's state, found by the boxes that others, or it itself, want.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/checkpoint/slices.h"
#include "fovea/checkpoint/state.h"

namespace fovea::elastic {

// A box of a tensor, by its names.
struct SliceName {
  std::string part, name;  // "model", "blocks.0.norm1.weight"
  checkpoint::Box box;

  // Of the slice among those of all parts.
  std::string key() const;
};

class HeldSlices {
 public:
  // The tensors of `held` are looked at, not copied.
  explicit HeldSlices(const checkpoint::State& held);

  // [box.size], a view. Throws DataError: it is not here, or not in one piece.
  at::Tensor find(const SliceName& wanted) const;

 private:
  // By part and name.
  std::map<std::pair<std::string, std::string>, std::vector<checkpoint::HeldSlice>> slices_;
};

}  // namespace fovea::elastic
