// Told to stop: SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask for a stop at the next step boundary, where
// the state is saved.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>

namespace fovea {

// Note [Signals]
// A handler runs on the stack of the thread that the signal finds. The matrix products that oneDNN
// generates keep their stack pointer inside a workspace on the heap, below which the signal's frame
// then overwrites what belongs to others: a run that is told to stop dies, or goes on with damaged
// numbers. So no thread takes these signals where it stands: hold_stop_signals blocks them before
// there is a second thread, each thread inherits that, and one that does nothing else waits for
// them. A handler that has to run where the fault is has a stack of its own: alternate_stack.h.

inline constexpr std::array<int, 4> kStopSignals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};

// Stop signals wait from now on, in this thread and those that it starts, until hold_stop_signals.
// Needs nothing but the C library: it may run before the initialisers of other libraries. SIGHUP
// stays ignored where it is (nohup).
void block_stop_signals();

// To be called first in main, before there are threads. From then on a stop signal is noted where
// StopSignals are alive, and else ends the process as it would without this call. SIGPIPE and
// SIGXFSZ are ignored: a pipe that nobody reads, or a file at the limit of its size, is an error of
// the write.
void hold_stop_signals();

// The signals to be unblocked in a program that this one starts, for it to be told as any other.
sigset_t stop_signal_set();

// While alive, stop signals are noted instead of ending the process. A second SIGINT ends it at
// once (exit code 130): checkpoints are written so that nothing saved is lost. One within another
// has what the outer one noted. In a program that did not call hold_stop_signals a handler notes
// them, on an alternate stack of the thread that made this: it protects that thread alone.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that asked last for the stop, or 0.
  static int received();
  // How often it has come, counting from the outermost of those alive.
  static int64_t count(int signal);

 private:
  std::array<struct sigaction, kStopSignals.size()> previous_{};
};

// StopSignals from now on to the end of the process, for a command that takes longer than its work:
// before it, between its parts, and when it is done but its process is not.
void note_stop_signals_for_good();

}  // namespace fovea
