// The program's log: one logger, to standard error and, for a run, to train.log as well.
#pragma once

#include <memory>
#include <string>

namespace spdlog::sinks {
class sink;
}

namespace fovea {

void log_info(const std::string& message);
void log_warning(const std::string& message);
// To the log file alone: what a terminal shows in another form, such as the progress line.
void log_to_file(const std::string& message);

// While it lives, the log also goes to the end of this file.
class LogFile {
 public:
  // Throws Error where the file cannot be opened.
  explicit LogFile(const std::string& path);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

 private:
  std::shared_ptr<spdlog::sinks::sink> sink_;
};

// False: nothing below a warning goes to standard error (--json, --quiet).
void set_log_verbose(bool is_verbose);
bool is_log_verbose();
// From now on nothing goes to standard error: of several processes one talks, the others have their
// files.
void mute_log();

}  // namespace fovea
