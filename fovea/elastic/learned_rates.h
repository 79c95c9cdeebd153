// How fast the members of a recorded run are, from a first part of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fovea/elastic/recording.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

// See Note [Recorded runs].
class LearnedRates {
 public:
  // From the lines of its first `samples`; run outlives it.
  LearnedRates(const Recording& run, double samples);

  // Since 1970: the end of that part, of the whole run with what came behind its last step.
  double cut_time() const { return cut_ == &run_.lines.back() ? run_.end : cut_->time; }
  // Each worker's, its name as its fingerprint.
  ProfileSet profiles() const;
  // Of steps, in what is no step and no change of members.
  double other_ms() const;
  // Of changes of a kind; of the whole run where the first part has none.
  double pause_s(bool failures) const;

 private:
  struct Point {
    double rows = 0, ms = 0;
  };

  void take_measured();
  double step_ms(int64_t generation) const;
  void fit();
  double exchange_ms(size_t ranks) const;
  void scale();

  const Recording& run_;
  const StepsLine* cut_ = nullptr;  // the last one that counts
  std::vector<const Event*> known_;
  std::map<int64_t, std::pair<double, int64_t>> steps_;  // s and number, by generation
  std::map<std::string, std::vector<Point>> points_;     // own times, by worker
  std::map<int64_t, std::vector<double>> exchange_;      // ms, by the number of ranks
  std::map<std::string, double> row_ms_;
  double fixed_ms_ = 0;
};

}  // namespace fovea::elastic
