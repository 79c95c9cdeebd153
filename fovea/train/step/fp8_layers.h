// The linear layers of a model that train in FP8, and what their tensors are scaled for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fovea/kernels/linear/fp8_linear.h"
#include "fovea/nn/block_linears.h"
#include "fovea/nn/unit.h"
#include "fovea/parallel/communicator.h"

namespace fovea::train {

using nn::NamedLinears;

// The linear layers that may multiply in FP8: those of blocks, with widths, or parts of them under
// tp, that are multiples of 16.
NamedLinears fp8_candidates(nn::UnitImpl& model);

enum class Fp8Scale { kCurrent, kDelayed };

// Note [Delayed scaling]
// Each layer has three tensors: its input, its weight and the gradient of its output. Of each, the
// largest value of a step is what all micro-batches saw, and all ranks: a maximum, so that a
// forward that recompute runs again changes nothing, and the parts of a step may come in any order.
// A tensor is scaled for the largest value of the last kFp8History steps. While there are fewer,
// scaling is current: a first guess would be worse. What was not finite is not remembered; such a
// step is not taken, or ends the run.
inline constexpr int64_t kFp8History = 16;

class Fp8Layers {
 public:
  // From now on `layers`, which live as long as this, train in FP8. all: every rank that takes part
  // in a step, with delayed scaling; outlives this. keeps_codes: weights are cast once a step, and
  // their codes kept until it is over; not for weights that are gathered piece by piece, which
  // would all be held that way.
  Fp8Layers(NamedLinears layers, Fp8Scale scale, at::Device device, parallel::Communicator& all,
            bool keeps_codes = true);
  ~Fp8Layers();
  Fp8Layers(const Fp8Layers&) = delete;
  Fp8Layers& operator=(const Fp8Layers&) = delete;

  std::vector<std::string> names() const;

  // Once a step, when its last backward is over. One collective with delayed scaling.
  void after_step();

  // To be saved with a checkpoint; a run that goes on has the same scales. Equal on all ranks.
  nlohmann::json state() const;
  // A state of other layers, or of current scaling, is left alone: the history then starts anew.
  // Throws CheckpointError where it is no state.
  void load_state(const nlohmann::json& state);
  // Of a state: the layers that were in FP8. Throws CheckpointError.
  static std::vector<std::string> names_in(const nlohmann::json& state);

 private:
  struct History;

  NamedLinears layers_;
  std::shared_ptr<History> history_;                             // null: current scaling
  std::vector<std::shared_ptr<kernels::Fp8WeightCodes>> codes_;  // by layer; null: not kept
  parallel::Communicator& all_;
};

}  // namespace fovea::train
