// How long a step takes on a device that gets so many samples of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/elastic/solve/cluster.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

// Note [Predicted step]
// A device has s samples of a step. It takes them in passes of n workers with m samples each, one
// pass after the other; the last one has what is left. With passes p, the sums over buckets that
// are reduced among N devices (all but the last one: C, the last one: c) and the optimizer's update
// u, a step takes
//   sum over p of (data + forward) + sum over all p but the last of backward
//   + max(backward of the last, C) + c + u + sync n
// for gradients travel while the last pass's backward goes on, but the last bucket is ready only
// when that is over. With weights that are updated as their buckets come (overlap), u is that of
// the last bucket alone. Times of a pass are measured, between two measured batches on a straight
// line, and no more samples take less time. Devices wait for the slowest.

enum class WeightSync { kSequential, kOverlap };
const char* name_of(WeightSync sync);
// JABAS's rule: one after the other where buckets, but the last one, are on average half as large
// again as 25 MiB.
WeightSync recommended_sync(const std::vector<double>& bucket_megabytes);
// "sequential", "overlap", or by the rule "recommend". Throws ConfigError for another word.
WeightSync sync_of(const std::string& word, const std::vector<double>& bucket_megabytes);

// ms of communication in a step.
struct NetworkTime {
  double before_last = 0;
  double last = 0;
};

class NetworkModel {
 public:
  explicit NetworkModel(const ProfileSet& profiles);
  // Of `ranks` devices with this host's bandwidths. Within a node what is faster there: a node can
  // also talk to itself through the network.
  NetworkTime time(const HostConfig& host, int64_t ranks, bool between_nodes) const;
  // JABAS's: within a node never through the network; one device alone pays the line's base.
  NetworkTime upstream_time(const HostConfig& host, int64_t ranks, bool between_nodes) const;
  double last_share() const { return last_share_; }  // of the bytes, in the last bucket

 private:
  double milliseconds(double bytes, const HostConfig& host, int64_t ranks, bool inter) const;

  std::vector<double> bucket_bytes_;
  double last_share_ = 1;
  bool has_lines_ = false;
  Line intra_, inter_;
};

// ms of a device's step.
struct StepParts {
  double data = 0, forward = 0, backward = 0;
  double sync = 0;
  double communication = 0;  // that no backward hides
  double update = 0;

  double total() const { return data + forward + backward + sync + communication + update; }
};

// How a device takes its samples.
struct Passes {
  int64_t micro_batch = 0;  // of one worker
  int64_t concurrent = 1;
  int64_t accumulation = 0;  // passes before the last one
};

// One way to take samples: m of each of n workers in a pass. Tables by the number of samples of a
// pass, 1 to m n.
class PassModel {
 public:
  struct Curve;
  PassModel(const ComputationPoint& point, const Curve& curve, double update);

  int64_t micro_batch() const { return micro_batch_; }
  int64_t concurrent() const { return concurrent_; }
  double milliseconds(int64_t samples, const NetworkTime& network) const;
  // The most samples, up to `most`, that milliseconds() <= ms holds for; 0: none.
  int64_t capacity(double ms, const NetworkTime& network, int64_t most) const;
  StepParts parts(int64_t samples, const NetworkTime& network) const;

 private:
  struct Pass {
    double data = 0, forward = 0, backward = 0;
  };
  Pass pass(int64_t samples) const { return passes_[static_cast<size_t>(samples)]; }
  int64_t samples_per_pass() const { return micro_batch_ * concurrent_; }
  double tail(int64_t samples, const NetworkTime& network) const;

  int64_t micro_batch_, concurrent_;
  double full_ = 0;   // data, forward and backward of a full pass
  double fixed_ = 0;  // sync and update
  double sync_ = 0, update_ = 0;
  std::vector<Pass> passes_;
};

// A kind of device: all ways that its profile and its memory allow.
class DeviceModel {
 public:
  // Throws DataError where none is left.
  DeviceModel(const DeviceProfile& profile, WeightSync sync, double last_share);

  double milliseconds(int64_t samples, const NetworkTime& network) const;
  int64_t capacity(double ms, const NetworkTime& network, int64_t most) const;
  // The fastest way; of equally fast ones that with the fewest workers.
  const PassModel& fastest(int64_t samples, const NetworkTime& network) const;
  const std::vector<PassModel>& ways() const { return ways_; }

 private:
  std::vector<PassModel> ways_;
};

Passes passes_of(const PassModel& way, int64_t samples);

// ms of passes of `batch` samples, by how many are computed at the same time: what a device's step
// is made of, whatever its memory holds.
std::map<int64_t, double> pass_milliseconds(const DeviceProfile& profile, int64_t batch);

}  // namespace fovea::elastic
