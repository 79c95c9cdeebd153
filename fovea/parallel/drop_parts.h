// The parts of its drop layers' tensors that a unit sees, from what it declares of them.
#pragma once

#include "fovea/nn/unit.h"
#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

// Between which ranks the work of a unit is shared out; a group of one shares out nothing.
struct UnitRanks {
  Communicator& layers;  // heads and hidden features, with the Linears that make them
  Communicator& cp;      // tokens, in front of sp
  Communicator& sp;      // tokens
};

// Sets unit.drop_parts.
void share_out_drops(nn::UnitImpl& unit, const UnitRanks& ranks);

}  // namespace fovea::parallel
