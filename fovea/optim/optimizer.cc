#include "fovea/optim/optimizer.h"

#include "fovea/core/error.h"

namespace fovea::optim {

void Optimizer::step_by_replay(double /*lr*/, const StepExtras& /*extras*/,
                               const std::function<void()>& /*replay*/) {
  fail("the optimizer has no recorded steps; expected can_be_recorded()");
}

}  // namespace fovea::optim
