#include "fovea/train/run/run_clock.h"

#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"

namespace fovea::train {
namespace {

// The words of this process's command line.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace

RunClock::RunClock(std::filesystem::path path, const ComputeOptions& compute)
    : path_(std::move(path)) {
  file_.started = timestamp_now();
  if (is_there(path_)) {
    try {
      file_.started = read_machine_file(path_).started;
    } catch (const DataError& error) {
      log_warning(
          fmt::format("{}; it is made anew: when the run was first started is lost", error.what()));
    }
  }
  file_.machine = this_machine();
  file_.version = FOVEA_VERSION;
  file_.torch_version = TORCH_VERSION;
  file_.command = command_line();
  file_.device = compute.device.str();
  file_.dtype = dtype_name(compute.dtype);
  file_.threads = at::get_num_threads();
  write();
}

RunClock::~RunClock() {
  file_.ended = timestamp_now();
  write();
}

void RunClock::write() const {
  try {
    write_machine_file(path_, file_);
  } catch (const Error& error) {
    log_warning(error.what());  // the run itself is not lost for it
  }
}

}  // namespace fovea::train
