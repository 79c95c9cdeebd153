// Which processor a helper of a team is on, and whether it gets it.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>

namespace fovea::kernels::cpu {

// Note [Places of helpers]
// Where every processor is busy the scheduler wakes a helper on that of the thread that woke it,
// and leaves it there: beside one program on the other processor of two, thread and helper took
// turns on theirs. So a helper that finds itself on its thread's processor goes to the others.
// And a helper that loses its processor to another program in the middle of its work is back after
// a turn, 4 ms on most systems, in which its thread waits and leaves a processor idle. So a thread
// that waits fetches a helper that does not get on to its own processor, whose turn it has, and
// lets it go behind its work, when the helper itself would come to it only behind the thread.
// Helpers may be wherever their thread may, but for the processor that the thread was on.
class HelperPlace {
 public:
  // Of a helper of the calling thread.
  HelperPlace();

  // In the helper, before the rest.
  void begin();
  // Between them the helper is at work for the thread, which is on processor `cpu` (-1: unknown).
  void arrive(int cpu);
  void leave();

  // In the thread. Of a helper that is not at work the first two do nothing.
  void look();            // at what processor time the helper has had
  bool fetch_if_stuck();  // brings it here, if it had none since the last look -> whether it did
  void let_go();          // what was fetched

 private:
  void keep_off(int cpu);
  int64_t processor_time() const;  // ns

  const pid_t owner_;
  pid_t helper_ = 0;
  clockid_t clock_ = 0;
  std::atomic<bool> is_at_work_ = false;
  std::optional<int64_t> seen_;  // at the last look; none where it was not at work
  bool is_fetched_ = false;
};

}  // namespace fovea::kernels::cpu
