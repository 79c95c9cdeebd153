// What attention keeps for the whole process: all of it, and why.
#pragma once

#include <atomic>
#include <mutex>

#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/attention_table.h"

namespace fovea::kernels {

struct AttentionState {
  // device.attention. Layers know no recipe, and a process trains or asks one at a time.
  std::atomic<AttentionChoice> choice{AttentionChoice::kAuto};
  // Times are the GPU's, whatever model asks; a run that goes on needs those that it began with.
  AttentionTable table;
  // Libtorch takes its kernel from switches of the process, set and put back around each call.
  std::mutex libtorch_switches;
};

// Beside kernel_paths(), which is a processor's.
AttentionState& attention_state();

}  // namespace fovea::kernels
