#include "fovea/core/machine_load.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fovea/core/cpu_time.h"

namespace fovea {
namespace {

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

std::optional<double> busy_seconds(std::string_view stat, const std::vector<int>& cores,
                                   int64_t ticks_per_second) {
  std::istringstream lines{std::string(stat)};
  size_t found = 0;
  double ticks = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    const bool is_core =
        name.starts_with("cpu") && name.size() > 3 && name.size() < 9 &&
        std::all_of(name.begin() + 3, name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_core || std::find(cores.begin(), cores.end(), std::stoi(name.substr(3))) == cores.end())
      continue;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
    if (!(words >> user >> nice >> system >> idle >> waiting >> interrupts >> soft)) return {};
    double stolen = 0;  // older kernels have none
    words >> stolen;
    ticks += user + nice + system + interrupts + soft + stolen;
    ++found;
  }
  if (found == 0 || found != cores.size()) return {};
  return ticks / static_cast<double>(ticks_per_second);
}

std::string MachineLoad::text() const {
  return fmt::format("others use {:.1f} of {} core{}", others, cores, cores == 1 ? "" : "s");
}

MachineLoadMeter::MachineLoadMeter() : cores_(usable_cores()), last_(now()) {}

std::optional<MachineLoadMeter::Reading> MachineLoadMeter::now() const {
  std::ifstream file("/proc/stat");
  std::stringstream text;
  text << file.rdbuf();
  const auto busy = busy_seconds(text.str(), cores_, sysconf(_SC_CLK_TCK));
  if (!busy) return {};
  return Reading{.time = std::chrono::steady_clock::now(), .busy = *busy, .own = cpu_seconds()};
}

std::optional<MachineLoad> MachineLoadMeter::read(std::chrono::milliseconds least) {
  if (!last_ || std::chrono::steady_clock::now() - last_->time < least) return {};
  const auto found = now();
  if (!found) return {};
  const double seconds = std::chrono::duration<double>(found->time - last_->time).count();
  const double own = (found->own - last_->own) / seconds;
  const double all = (found->busy - last_->busy) / seconds;
  last_ = found;
  return MachineLoad{
      .others = std::max(0.0, all - own), .own = own, .cores = static_cast<int64_t>(cores_.size())};
}

}  // namespace fovea
