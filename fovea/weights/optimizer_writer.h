// The state of an optimizer as torch's state_dict has it.
#pragma once

#include "fovea/weights/moments.h"
#include "fovea/weights/torch_object.h"

namespace fovea::weights {

// kByName: as get_optimizer_state_dict, which torch.distributed.checkpoint saves. kByIndex: as
// optimizer.state_dict(), with param_names beside the numbers; of Muon by name all the same, for
// torch has two optimizers for it.
enum class OptimizerKeys { kByName, kByIndex };

// {"state": ..., "param_groups": ...}. Groups that nobody knows become one, without settings.
TorchDict optimizer_object(const NamedMoments& moments, OptimizerKeys keys);

}  // namespace fovea::weights
