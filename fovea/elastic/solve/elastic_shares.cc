#include "fovea/elastic/solve/elastic_shares.h"

#include <algorithm>

namespace fovea::elastic {
namespace {

constexpr double kMeasuredSteps = 10;  // that a worker takes before it says how long they took it

}  // namespace

WorkingSet ElasticShares::fitting(const std::vector<bool>& present) const {
  auto equal = sets_.equal(present, 0);
  if (head_.shares == "equal") return equal;
  auto by_speed = sets_.all(present);
  return by_speed.ms <= (1 - head_.shares_gain) * equal.ms ? by_speed : equal;
}

std::optional<double> ElasticShares::steps_until_known(const std::vector<bool>& present) const {
  if (are_measured_) return {};
  const double lost_ms = sets_.equal(present, 0).ms - fitting(present).ms;
  if (!(lost_ms > 0)) return kMeasuredSteps;
  return kMeasuredSteps +
         std::max(static_cast<double>(head_.shares_after), 1000 * head_.change_s / lost_ms);
}

}  // namespace fovea::elastic
