// device.fp8: what of a run trains in FP8.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "fovea/models/model.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/step/fp8_choice.h"
#include "fovea/train/step/fp8_layers.h"

namespace fovea::train {

struct Fp8Start {
  int64_t samples = 1;                    // of one forward pass
  int64_t cp = 1;                         // ranks that share out its tokens
  parallel::Communicator* all = nullptr;  // every rank that takes part; null: this one alone
  const nlohmann::json* saved = nullptr;  // Fp8Layers::state of a checkpoint, to go on from
  bool are_gathered = false;              // weights, piece by piece (ZeRO 3)
  // Of auto; null: measure_linear on the device.
  MeasureLinear measure = nullptr;
};

// Sets up the model, whose layers are shared out; null where device.fp8 is off, or auto and the
// device of some rank does not multiply FP8. auto takes the layers of a checkpoint, whoever chose
// them; else the first rank measures, for all of them; on the meta device, which stands for a GPU
// that multiplies FP8, each layer counts as faster. Model and ranks outlive what is returned.
// Collective. Throws ConfigError where a GPU has no FP8, or the model no layer for it.
std::unique_ptr<Fp8Layers> make_fp8(const TrainConfig& config, models::Model& model,
                                    c10::Device device, const Fp8Start& start);

}  // namespace fovea::train
