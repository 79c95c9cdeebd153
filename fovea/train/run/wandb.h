// Weights & Biases through a helper process (tools/wandb_follow.py) that follows metrics.jsonl.
// Training never waits for it and never fails because of it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace fovea::train {

struct WandbOptions {
  std::string project;
  std::string entity;
  std::string name;
  std::string mode = "offline";  // as log.wandb.mode
  std::string python = {};       // by default $FOVEA_PYTHON, else python3
  std::string script = {};       // by default found near the program: tools/ or share/fovea/
  std::function<void(const std::string&)> warn = {};  // by default the log
};

// Whether wandb's client finds a key by itself: in WANDB_API_KEY, or in the file that NETRC names,
// by default ~/.netrc, for the host of WANDB_BASE_URL, by default api.wandb.ai.
bool has_wandb_key();

class WandbFollower {
 public:
  // Starts the helper on a run folder; what it says goes to wandb.log there. To be made after
  // metrics.jsonl was cut for a resumed run. What is missing (Python, the package, the script) is
  // said once, as a warning.
  WandbFollower(const std::string& run_dir, WandbOptions options);
  // As stop().
  ~WandbFollower();
  WandbFollower(const WandbFollower&) = delete;
  WandbFollower& operator=(const WandbFollower&) = delete;

  // Tells the helper that the run has ended and gives it some seconds to send what is left; it goes
  // on by itself if it needs longer.
  void stop(double seconds = 20);

  bool is_started() const { return started_; }

 private:
  // The helper's end, if it has come; warns where it failed.
  bool has_ended();

  WandbOptions options_;
  std::string log_path_;
  pid_t pid_ = -1;
  int pipe_ = -1;  // the helper ends when this is closed, also by a crash of this process
  bool started_ = false;
};

}  // namespace fovea::train
