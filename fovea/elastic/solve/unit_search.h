// For JABAS's choices: units that each run whole workers.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace fovea::elastic {

// The fastest way of one kind to run so many workers on each device, by that number.
struct UnitWay {
  double ms = std::numeric_limits<double>::infinity();
  int64_t concurrent = 1, accumulation = 0;
};
using UnitWays = std::vector<UnitWay>;

// So many units of a kind, and the workers on each device of each.
struct UnitChoice {
  double ms = std::numeric_limits<double>::infinity();
  std::vector<std::vector<int64_t>> workers{};  // by kind and unit
};

// Finds who runs how many workers, among exactly so many units that run exactly so many of them.
class UnitSearch {
 public:
  // ways[kind][w]: of w workers on each device; limits[kind]: units of it.
  UnitSearch(std::vector<UnitWays> ways, std::vector<int64_t> limits, int64_t units,
             int64_t workers);
  // The choice whose slowest unit takes least, if that is below `below`; else its ms is not.
  UnitChoice run(double below) const;

 private:
  int64_t most_workers(size_t kind, double ms) const;
  bool holds(double ms) const;
  double least_ms(double below) const;
  std::optional<UnitChoice> greedy(double ms) const;
  double slowest(const UnitChoice& choice) const;
  UnitChoice exact(double below) const;

  std::vector<UnitWays> ways_;
  std::vector<int64_t> limits_;
  int64_t units_, workers_;
};

}  // namespace fovea::elastic
