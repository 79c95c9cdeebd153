// MLflow beside a run that goes on: a thread sends what comes to metrics.jsonl. Training never
// waits for it and never fails because of it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "fovea/track/mlflow_sender.h"

namespace fovea::track {

struct FollowerOptions {
  std::chrono::milliseconds every{1000};        // looks for new lines
  std::chrono::milliseconds retry_first{1000};  // then twice as long each time
  std::chrono::milliseconds retry_longest{60'000};
  std::function<void(const std::string&)> warn = {};  // by default the log
  std::function<void(const std::string&)> say = {};   // likewise
};

class MlflowFollower {
 public:
  // To be made after metrics.jsonl was cut for a resumed run. What is missing (an address, libcurl)
  // is said once, as a warning.
  MlflowFollower(std::string run_dir, const MlflowConfig& config, const Facts& facts,
                 FollowerOptions options = {});
  // As stop({}), in half a second: training may go on.
  ~MlflowFollower();
  MlflowFollower(const MlflowFollower&) = delete;
  MlflowFollower& operator=(const MlflowFollower&) = delete;

  // Sends what is left, and how the run has ended, in some seconds at most; says what waits then,
  // and which command sends it. end: none: another process may go on with the run, and sends it.
  void stop(std::optional<RunEnd> end,
            std::chrono::milliseconds patience = std::chrono::seconds(5));

 private:
  void run();
  // One round -> how long until the next; nothing: there is none.
  std::optional<std::chrono::milliseconds> send_once(bool is_last);
  bool is_abandoned();
  void say_what_waits();

  std::string run_dir_;
  FollowerOptions options_;
  std::unique_ptr<MlflowSender> sender_;  // null: nothing is sent

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false, has_ended_ = false;
  std::optional<RunEnd> end_;

  // Of the thread.
  bool was_away_ = false;  // before the stop, and since
  int failures_ = 0;       // in a row
  bool is_told_of_page_ = false;
  bool is_complete_ = false;  // at the end nothing waits
  std::thread thread_;
};

}  // namespace fovea::track
