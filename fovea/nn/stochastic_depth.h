// A residual branch under stochastic depth (Huang et al. 2016).
#pragma once

#include <functional>
#include <vector>

#include "fovea/nn/layer_scale.h"
#include "fovea/nn/unit.h"

namespace fovea::nn {

struct DropPath {
  double rate = 0.0;
  bool skip = false;  // the work for samples that are dropped is not done
};

// tensors: those of add_branch, in its order; residual: as the first, or undefined -> what the
// branch makes of the tensors, [B, ...] as the first, plus the residual where there is one.
using Branch =
    std::function<at::Tensor(const std::vector<at::Tensor>& tensors, const at::Tensor& residual)>;

// tensors[0] + drop_path(scale(branch(tensors))), with the drops of `unit` under `name`; a null
// scale: none. tensors: [B, ...] each, or undefined. What stands behind the branch is one pass over
// memory, unless somebody watches the scale, and the branch's own where nothing is but the sum.
// With drop_path.skip the branch gets the kept samples alone, as rows of the batch that they are,
// so that all else that it draws is the same too: a result that differs by rounding at most. Where
// none is kept it gets one sample, of which nothing is added, so that every process does the same
// operations and every parameter gets a gradient.
at::Tensor add_branch(const UnitImpl& unit, const char* name, const DropPath& drop_path,
                      const std::vector<at::Tensor>& tensors, LayerScale scale,
                      const Branch& branch);

}  // namespace fovea::nn
