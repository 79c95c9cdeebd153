// Which workers should compute, by profiles of their devices and by prices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/control/proposal.h"
#include "fovea/elastic/solve/choice.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/train/recipe/elastic_config.h"

namespace fovea::elastic {

// Note [Proposals]
// Workers that are there are devices of a cluster: of the kind that a worker's record says, or
// gpu_cluster_info of its host, and at that one's price. A member that was measured to be slower
// than its profile says is a device of a kind of its own, slower by that factor in steps of the
// root of 2; the factor follows only where it is off by more than three quarters of a step. The
// choice is that of Note [Ours]: the next event is expected after as long as there was between
// events so far, and before the first one as long as the run has gone on.
class DeviceAdviser : public Adviser {
 public:
  // cluster: of gpu_cluster_info; without hosts: a price of 1 for each device.
  DeviceAdviser(ProfileSet profiles, Cluster cluster, double cost_weight, bool is_applied);

  Advice look(const Situation& situation, const PlanOptions& options, double now_s) override;
  std::optional<double> profile_ms(const PresentWorker& worker, int64_t rows) const override;
  bool is_applied() const override { return is_applied_; }

 private:
  struct Candidates;
  void count_events(const std::vector<const PresentWorker*>& there, double now_s);
  void follow_batch(const Plan& plan, const Situation& situation);
  int level_of(const PresentWorker& worker, const Plan* plan);
  const DeviceProfile* profile_of(const PresentWorker& worker) const;
  const HostConfig* host_of(const PresentWorker& worker) const;
  Candidates candidates_of(const std::vector<const PresentWorker*>& there, const Plan* plan);
  Advice advice_of(Candidates& candidates, const Plan* plan, bool has_lost, double pause_s,
                   double samples, const PlanOptions& options, double now_s);

  ProfileSet profiles_;
  Cluster cluster_;
  double cost_weight_;
  bool is_applied_;
  std::map<std::string, std::unique_ptr<DeviceModel>> models_;  // by fingerprint
  std::map<Registration, int> levels_;  // half powers of 2 that a worker is slower by
  std::vector<Registration> there_;
  double started_s_ = -1, looked_s_ = -1;
  int64_t events_ = 0;
  std::vector<BatchPoint> batches_;
  std::string looked_at_;  // what the last advice hangs on
  Advice last_;
};

// As a recipe says, whose paths are looked for from here; null: it has no profiles, or
// elastic.propose is off. Throws ConfigError, DataError: the files.
// concurrent_passes: the trainer's; nothing: whatever gains.
std::shared_ptr<Adviser> make_adviser(const train::ElasticConfig& config,
                                      std::optional<int64_t> concurrent_passes);

}  // namespace fovea::elastic
