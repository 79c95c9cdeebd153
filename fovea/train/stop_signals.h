// Told to stop: SIGINT, SIGTERM and SIGUSR1 ask for a stop at the next step boundary, where the
// state is saved.
#pragma once

#include <csignal>

namespace fovea::train {

// While alive, the three signals are noted instead of ending the process; the handlers before are
// restored after. A second SIGINT ends the process at once (exit code 130): checkpoints are written
// so that nothing saved is lost. One within another has what the outer one noted.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The signal that asked for the stop, or 0.
  static int received();

 private:
  struct sigaction previous_int_ {
  }, previous_term_{}, previous_usr1_{};
};

}  // namespace fovea::train
