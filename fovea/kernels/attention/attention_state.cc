#include "fovea/kernels/attention/attention_state.h"

namespace fovea::kernels {

AttentionState& attention_state() {
  static AttentionState state;
  return state;
}

}  // namespace fovea::kernels
