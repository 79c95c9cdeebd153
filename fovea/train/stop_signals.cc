#include "fovea/train/stop_signals.h"

#include <unistd.h>

namespace fovea::train {
namespace {

constexpr int kInterrupted = 130;  // 128 + SIGINT, as shells report it
volatile std::sig_atomic_t received_signal = 0;
int num_alive = 0;  // in the main thread alone

// Only what is safe in a handler: a flag, and _exit.
void on_signal(int signal) {
  if (signal == SIGINT && received_signal == SIGINT) _exit(kInterrupted);
  received_signal = signal;
}

}  // namespace

StopSignals::StopSignals() {
  if (num_alive++ == 0) received_signal = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &previous_int_);
  sigaction(SIGTERM, &action, &previous_term_);
  sigaction(SIGUSR1, &action, &previous_usr1_);
}

StopSignals::~StopSignals() {
  num_alive -= 1;
  sigaction(SIGINT, &previous_int_, nullptr);
  sigaction(SIGTERM, &previous_term_, nullptr);
  sigaction(SIGUSR1, &previous_usr1_, nullptr);
}

int StopSignals::received() { return received_signal; }

}  // namespace fovea::train
