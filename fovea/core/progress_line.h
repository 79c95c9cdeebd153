// The progress line: one line that is rewritten on a terminal, plain lines now and then elsewhere
// (a log file, a batch job), nothing at all where --json asks for machine output only.
#pragma once

#include <chrono>
#include <string>

namespace fovea {

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

}  // namespace fovea
