// The progress line: one line that is rewritten on a terminal, plain lines now and then elsewhere
// (a log file, a batch job), nothing at all where --json asks for machine output only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace fovea::train {

struct ProgressStatus {
  int64_t epoch = 0, num_epochs = 0;  // epoch counts from 1
  int64_t step = 0, num_steps = 0;
  double loss = 0;
  double accuracy = -1;  // percent; below 0: not shown
  double images_per_second = 0;
  double data_wait = 0;  // share of the time spent waiting on data
  int64_t memory_bytes = 0;
  double seconds_left = 0;
  std::string remark = {};  // "others use 1.7 of 2 cores"; empty: there is none
};

// "epoch 2/5  step 310/1170  loss 0.4120  acc 85.1 %  1,450 img/s  data 1 %  812 MiB  2m10s left"
std::string format_progress(const ProgressStatus& status);

// "2m10s", "1h03m", "42s".
std::string format_duration(double seconds);

class ProgressLine {
 public:
  enum class Mode { kAuto, kTerminal, kPlain, kSilent };
  explicit ProgressLine(Mode mode = Mode::kAuto);
  ~ProgressLine();

  // Shows `text` in place of the last one; in plain mode only once in `plain_interval_` seconds.
  void update(const std::string& text);
  // Clears the line, so that other output can be printed.
  void clear();
  // A whole line that stays.
  void print(const std::string& text);

 private:
  Mode mode_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace fovea::train
