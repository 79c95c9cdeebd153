#include "fovea/track/mlflow_follower.h"

#include <algorithm>
#include <utility>

#include "fovea/core/log.h"

namespace fovea::track {

using std::chrono::milliseconds;

MlflowFollower::MlflowFollower(std::string run_dir, const MlflowConfig& config, const Facts& facts,
                               FollowerOptions options)
    : run_dir_(std::move(run_dir)), options_(std::move(options)) {
  if (!options_.warn) options_.warn = log_warning;
  if (!options_.say) options_.say = log_info;
  try {
    sender_ = std::make_unique<MlflowSender>(run_dir_, config, facts, true, options_.warn);
  } catch (const Error& error) {
    options_.warn(fmt::format("log.mlflow: {}; no metrics are sent", error.what()));
    return;
  }
  thread_ = std::thread([this] { run(); });
}

MlflowFollower::~MlflowFollower() { stop({}, milliseconds(500)); }

std::optional<milliseconds> MlflowFollower::send_once(bool is_last) {
  try {
    if (is_last) {
      sender_->finish(end_);
      is_complete_ = true;
    } else {
      sender_->send_metrics();
    }
    if (failures_ > 0)
      options_.say(fmt::format("log.mlflow: MLflow at {} is back", sender_->uri()));
    if (!is_told_of_page_) options_.say(fmt::format("log.mlflow: {}", sender_->page()));
    failures_ = 0;
    was_away_ = false;
    is_told_of_page_ = true;
    return is_last ? std::nullopt : std::optional(options_.every);
  } catch (const MlflowError& error) {
    if (error.kind() != MlflowError::Kind::kAway) {
      options_.warn(fmt::format("log.mlflow: {}; nothing is sent any more", error.what()));
      return std::nullopt;
    }
    if (is_last && failures_ > 0 && was_away_) return std::nullopt;  // it had its time
    if (failures_++ == 0 && !is_abandoned()) {
      options_.warn(
          fmt::format("log.mlflow: {}; it is asked again, and the metrics wait in {}/metrics.jsonl",
                      error.what(), run_dir_));
    }
  } catch (const std::exception& error) {
    options_.warn(fmt::format("log.mlflow: {}; nothing is sent any more", error.what()));
    return std::nullopt;
  }
  was_away_ = was_away_ || !is_last;
  const auto pause = options_.retry_first * (1 << std::min(failures_ - 1, 20));
  return std::min(is_last ? options_.retry_first : options_.retry_longest, pause);
}

bool MlflowFollower::is_abandoned() {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void MlflowFollower::run() {
  for (bool is_last = false;;) {
    const auto pause = send_once(is_last);
    std::unique_lock lock(mutex_);
    if (!pause) {
      has_ended_ = true;
      changed_.notify_all();
      return;
    }
    const bool was_last = is_last;
    // After the stop every round is the last; whoever waits for them ends them.
    changed_.wait_for(lock, *pause, [&] { return has_ended_ || (is_stopping_ && !was_last); });
    if (has_ended_) return;
    is_last = is_stopping_;
  }
}

void MlflowFollower::stop(std::optional<RunEnd> end, milliseconds patience) {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    end_ = end;
    is_stopping_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, patience, [&] { return has_ended_; })) {
      has_ended_ = true;
      sender_->interrupt();
      changed_.notify_all();
    }
  }
  thread_.join();
  say_what_waits();
}

void MlflowFollower::say_what_waits() {
  if (is_complete_ || !end_) return;
  try {
    const auto files = end_ == RunEnd::kFinished ? sender_->files_waiting().size() : 0;
    options_.warn(fmt::format(
        "log.mlflow: {} values and {} files wait in {}; they are sent by: fovea track {}",
        sender_->num_waiting(), files, run_dir_, run_dir_));
  } catch (const Error& error) {
    options_.warn(fmt::format("log.mlflow: {}", error.what()));
  }
}

}  // namespace fovea::track
