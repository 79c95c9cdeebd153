// The program's log: one logger, to standard error and, for a run, to train.log as well.
#pragma once

#include <string>

namespace fovea {

void log_info(const std::string& message);
void log_warning(const std::string& message);

// From now on also appends to this file, until the next call; empty: to no file. Throws Error where
// it cannot be opened.
void set_log_file(const std::string& path);

// False: nothing below a warning goes to standard error (--json, --quiet).
void set_log_verbose(bool is_verbose);

}  // namespace fovea
