// How busy the processor's cores are with other programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Seconds that the processors `cores` were busy since the machine was started, by the text of
// /proc/stat; time that a hypervisor gave to others counts. Nothing where it is no such text.
std::optional<double> busy_seconds(std::string_view stat, const std::vector<int>& cores,
                                   int64_t ticks_per_second);

struct MachineLoad {
  double others = 0;  // cores that other programs took, on average
  double own = 0;     // that this process took
  int64_t cores = 0;  // that this process may run on

  // They are in each other's way: hardly a core was left idle, and others had a good part.
  bool is_busy() const {
    const auto all = static_cast<double>(cores);
    return others > 0.2 * all && others + own > 0.9 * all;
  }
  std::string text() const;  // "others use 1.7 of 2 cores"
};

// Looks at the machine from when it is made.
class MachineLoadMeter {
 public:
  MachineLoadMeter();

  // Since the last call that gave something, which was a second ago at least; nothing where the
  // system does not say (no /proc/stat), or before that.
  std::optional<MachineLoad> read(std::chrono::milliseconds least = std::chrono::seconds(1));

 private:
  struct Reading {
    std::chrono::steady_clock::time_point time;
    double busy = 0, own = 0;  // seconds
  };
  std::optional<Reading> now() const;

  std::vector<int> cores_;
  std::optional<Reading> last_;
};

}  // namespace fovea
