// Starting the ranks of a run on this machine: this program again, once for each rank.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fovea::parallel {

struct LocalRun {
  int exit_code = 0;    // of the first rank that failed; 75 where the ranks were told to stop
  std::string message;  // what to tell the user; empty: nothing, or the rank has told itself
};

struct LocalLaunchOptions {
  int64_t processes = 1;
  double grace = 15;  // s for the others to end by themselves once a rank has failed
  // Starts a child with these variables (NAME=VALUE), in place of `command`.
  std::function<pid_t(const std::vector<std::string>& environment)> start = {};
  // Told of the processes, once they run.
  std::function<void(const std::vector<pid_t>&)> on_started = {};
};

// Runs `command` (the program's path, then its arguments) in `options.processes` processes with the
// environment that torchrun gives, and waits for them. Stop signals go on to all of them. When one
// fails the others are left to end by themselves for a while, then killed. The place where ranks
// meet is in this process, so it outlives each of them; it listens on loopback alone, and lets in
// who has the secret that is drawn here and handed on by the environment. A rank ends with the
// thread that called this, also where that was killed. Throws Error where a process cannot be
// started.
LocalRun run_local_ranks(const std::vector<std::string>& command,
                         const LocalLaunchOptions& options);

// Starts a program (its path, then its arguments) with this one's environment, in a process group
// of its own. It ends with the thread that called this. Throws Error.
pid_t start_local_process(const std::vector<std::string>& command);

// The command line of this process.
std::vector<std::string> own_command();

}  // namespace fovea::parallel
