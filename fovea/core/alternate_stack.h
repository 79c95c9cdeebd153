// A stack for handlers of signals that have to run in the thread where the fault is.
#pragma once

namespace fovea {

// Gives this thread a stack on which handlers with SA_ONSTACK run, for as long as it lives; nothing
// where it has one. See Note [Signals] for what happens without. Cheap after the first call.
void ensure_alternate_stack();

}  // namespace fovea
