// Threads that help one thread of the host with its kernels.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace fovea::kernels::cpu {

// Note [Teams]
// OpenMP's threads, libtorch's, take shares that were set beforehand and meet at a barrier: one
// whose processor somebody else has at that moment keeps all waiting, and those that wait spin on
// the processors that it could have. A step beside other programs takes ten times as long then.
//
// A team does work that is taken piece by piece (share_out.h), and nobody waits for a thread that
// has not begun: a helper that comes late finds nothing left to do. Who has nothing to do spins for
// some ten microseconds, less than it takes to wake up, and sleeps then; what is done with a helper
// that has begun and does not get on is in Note [Places of helpers]. A thread of the host has a
// team of its own, as with OpenMP, whose helpers end after it; a process that was forked gets new
// ones.
//
// libtorch's own operations keep OpenMP. Where its idle threads spin for milliseconds, as they do
// unless the environment says otherwise (GOMP_SPINCOUNT, OMP_WAIT_POLICY: the program fovea sets
// the first), they would take the processors from a team, so OpenMP's threads do all work there.

// Calls work(0) in this thread, and work(number) in up to `helpers` others of its team if they come
// before this one has ended; a helper's number, from 1 on, is always the same. Returns when all
// calls that have begun have ended; what one of them throws is thrown here, the first one's. Within
// work(), and within a parallel region of libtorch, this thread is alone.
void run_in_team(int64_t helpers, c10::function_ref<void(int64_t)> work);

// Whether the environment lets libtorch's idle threads spin for little time, so that teams work.
bool has_teams();

}  // namespace fovea::kernels::cpu
