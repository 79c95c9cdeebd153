#include "fovea/elastic/solve/upstream_solver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "fovea/elastic/solve/upstream_model.h"
#include "tests/elastic/solve/solve_cases.h"

namespace fovea::elastic {
namespace {

using testing::random_case;
using testing::SolveCase;

// Every local batch, set of units, and n and a of each of them, one by one.
class EveryUnit {
 public:
  EveryUnit(const SolveCase& given, int64_t unit) : case_(given), network_(given.profiles) {
    for (size_t host = 0; host < given.cluster.hosts.size(); ++host) {
      const auto units = given.cluster.hosts[host].config.number / unit;
      units_.insert(units_.end(), static_cast<size_t>(units), host);
    }
    unit_ = unit;
  }

  double run() {
    for (int64_t batch = 1; batch <= 8; ++batch) {
      if (case_.global_batch % (batch * unit_) != 0) continue;
      for (uint64_t set = 1; set < uint64_t{1} << units_.size(); ++set) {
        std::vector<size_t> hosts;
        for (size_t i = 0; i < units_.size(); ++i) {
          if (set >> i & 1) hosts.push_back(units_[i]);
        }
        of_hosts(batch, hosts);
      }
    }
    return least_;
  }

 private:
  void of_hosts(int64_t batch, const std::vector<size_t>& hosts) {
    std::vector<UpstreamModel> models;
    std::vector<NetworkTime> times;
    const bool several = std::set<size_t>(hosts.begin(), hosts.end()).size() > 1;
    for (const auto h : hosts) {
      const auto& host = case_.cluster.hosts[h];
      const auto model = UpstreamModel::of(*case_.profiles.find(host.name, host.config.type), batch,
                                           WeightSync::kOverlap, network_.last_share());
      if (!model) return;
      models.push_back(*model);
      times.push_back(
          network_.upstream_time(host.config, static_cast<int64_t>(hosts.size()) * unit_, several));
    }
    visit(models, times, 0, case_.global_batch / batch / unit_, 0);
  }

  void visit(const std::vector<UpstreamModel>& models, const std::vector<NetworkTime>& times,
             size_t i, int64_t workers, double ms) {
    if (i == models.size()) {
      if (workers == 0) least_ = std::min(least_, ms);
      return;
    }
    for (int64_t n = 1; n <= models[i].most_concurrent(); ++n) {
      for (int64_t a = 0; n * (a + 1) <= workers; ++a) {
        visit(models, times, i + 1, workers - n * (a + 1),
              std::max(ms, models[i].parts(n, a, times[i]).total()));
      }
    }
  }

  const SolveCase& case_;
  NetworkModel network_;
  std::vector<size_t> units_;  // the host of each
  int64_t unit_ = 1;
  double least_ = std::numeric_limits<double>::infinity();
};

TEST(UpstreamSolverTest, EqualsEveryChoiceTriedOneByOne) {
  int64_t solved = 0, none = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    auto made = random_case(seed, 6);
    made.global_batch *= 2;
    const int64_t unit = 1 + static_cast<int64_t>(seed % 2);
    const auto expected = EveryUnit(made, unit).run();
    const auto found =
        solve_upstream(made.cluster, made.profiles, WeightSync::kOverlap, unit, made.global_batch);
    ASSERT_EQ(found.is_found, std::isfinite(expected)) << "seed " << seed;
    if (!found.is_found) {
      ++none;
      continue;
    }
    ++solved;
    EXPECT_NEAR(found.solution.iteration_ms, expected, 1e-9 * expected) << "seed " << seed;
    int64_t samples = 0;
    for (const auto& device : found.solution.devices) {
      samples += device.local_batch;
      EXPECT_EQ(device.passes.micro_batch, found.local_batch);
      EXPECT_EQ(device.local_batch,
                found.local_batch * device.passes.concurrent * (device.passes.accumulation + 1));
    }
    EXPECT_EQ(samples, made.global_batch);
  }
  EXPECT_GT(solved, 60);
  EXPECT_GT(none, 3);
}

// What JABAS can choose is among what we can: with one worker at a time, where both models agree
// on what passes take, ours is never slower.
TEST(UpstreamSolverTest, OursIsNeverSlower) {
  int64_t faster = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto made = random_case(seed, 6);
    made.global_batch *= 2;
    for (auto& device : made.profiles.devices) {
      std::erase_if(device.computation, [](const auto& point) { return point.concurrent > 1; });
    }
    const auto upstream =
        solve_upstream(made.cluster, made.profiles, WeightSync::kOverlap, 1, made.global_batch);
    if (!upstream.is_found) continue;
    const SolveModel model(made.cluster, made.profiles, WeightSync::kOverlap);
    const auto ours = solve(made.cluster, model, {.global_batch = made.global_batch});
    // Upstream rounds a pass to a tenth of a millisecond and its throughput to three places.
    EXPECT_LE(ours.iteration_ms, upstream.solution.iteration_ms * 1.01 + 0.1) << "seed " << seed;
    faster += ours.iteration_ms < 0.95 * upstream.solution.iteration_ms;
  }
  EXPECT_GT(faster, 10);
}

TEST(UpstreamSolverTest, RecommendsByTheSizesOfBuckets) {
  EXPECT_EQ(recommended_sync({8, 30, 25, 25, 9}), WeightSync::kOverlap);
  EXPECT_EQ(recommended_sync({40, 40, 1}), WeightSync::kSequential);
  EXPECT_EQ(recommended_sync({400}), WeightSync::kOverlap);
}

}  // namespace
}  // namespace fovea::elastic
