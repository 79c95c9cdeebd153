#include "fovea/elastic/solve/step_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

constexpr double kBytesOfMegabyte = 1 << 20;
// Samples of a pass for which a table is kept; devices do not hold passes of more.
constexpr int64_t kMaxPassSamples = 1 << 16;
constexpr int64_t kMaxTableSamples = 1 << 22;  // of all ways of a device

double levels(int64_t ranks) { return std::ceil(std::log2(static_cast<double>(ranks))); }

// ms / levels over bytes (n - 1) / n / levels.
Line fit_points(const std::vector<CommunicationPoint>& points, const std::string& place) {
  std::vector<double> x, y;
  for (const auto& point : points) {
    if (point.place != place || point.collective != "all_reduce") continue;
    const auto n = static_cast<double>(point.ranks);
    x.push_back(point.bytes * (n - 1) / n / levels(point.ranks));
    y.push_back(point.ms / levels(point.ranks));
  }
  auto line = fit_line(x, y);
  line.base = std::max(0.0, line.base);
  return line;
}

bool has_place(const std::vector<CommunicationPoint>& points, const std::string& place) {
  return std::any_of(points.begin(), points.end(), [&](const auto& point) {
    return point.place == place && point.collective == "all_reduce";
  });
}

}  // namespace

const char* name_of(WeightSync sync) {
  return sync == WeightSync::kOverlap ? "overlap" : "sequential";
}

WeightSync recommended_sync(const std::vector<double>& bucket_megabytes) {
  constexpr double kCapacity = 25, kMany = 1.5;
  const auto count = std::max<size_t>(bucket_megabytes.size(), 1) - 1;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += bucket_megabytes[i];
  const double mean = count > 0 ? std::floor(sum / static_cast<double>(count)) : 0;
  return mean / kCapacity > kMany ? WeightSync::kSequential : WeightSync::kOverlap;
}

WeightSync sync_of(const std::string& word, const std::vector<double>& bucket_megabytes) {
  if (word == "recommend") return recommended_sync(bucket_megabytes);
  if (word == "overlap") return WeightSync::kOverlap;
  if (word == "sequential") return WeightSync::kSequential;
  fail<ConfigError>("--weight-sync: found '{}'; expected sequential, overlap or recommend",
                    printable_start(word));
}

NetworkModel::NetworkModel(const ProfileSet& profiles) : has_lines_(profiles.has_lines) {
  double sum = 0;
  for (const double megabytes : profiles.bucket_megabytes) {
    bucket_bytes_.push_back(megabytes * kBytesOfMegabyte);
    sum += bucket_bytes_.back();
  }
  if (sum > 0) last_share_ = bucket_bytes_.back() / sum;
  if (has_lines_) {
    intra_ = profiles.intra;
    inter_ = profiles.inter;
    return;
  }
  // One place that was not measured is taken as the other one.
  const auto& points = profiles.communication;
  intra_ = fit_points(points, has_place(points, "intra") ? "intra" : "inter");
  inter_ = fit_points(points, has_place(points, "inter") ? "inter" : "intra");
}

double NetworkModel::milliseconds(double bytes, const HostConfig& host, int64_t ranks,
                                  bool inter) const {
  const auto& line = inter ? inter_ : intra_;
  const auto n = static_cast<double>(ranks);
  if (!has_lines_) return levels(ranks) * line.base + line.slope * bytes * (n - 1) / n;
  const double bandwidth = inter ? host.inter_network_bandwidth : host.intra_network_bandwidth;
  const double ideal = bandwidth > 0 ? 1000 * 4 * (n - 1) / n * bytes / bandwidth : 0;
  return std::max(0.0, line.at(ideal));
}

NetworkTime NetworkModel::time(const HostConfig& host, int64_t ranks, bool between_nodes) const {
  NetworkTime time;
  if (ranks < 2) return time;
  for (size_t i = 0; i < bucket_bytes_.size(); ++i) {
    double ms = milliseconds(bucket_bytes_[i], host, ranks, true);
    if (!between_nodes) ms = std::min(ms, milliseconds(bucket_bytes_[i], host, ranks, false));
    (i + 1 < bucket_bytes_.size() ? time.before_last : time.last) += ms;
  }
  return time;
}

NetworkTime NetworkModel::upstream_time(const HostConfig& host, int64_t ranks,
                                        bool between_nodes) const {
  NetworkTime time;
  for (size_t i = 0; i < bucket_bytes_.size(); ++i) {
    const double ms = milliseconds(bucket_bytes_[i], host, ranks, between_nodes);
    (i + 1 < bucket_bytes_.size() ? time.before_last : time.last) += ms;
  }
  return time;
}

// Times of passes of so many workers by their batch: none falls.
struct PassModel::Curve {
  std::vector<double> batch;
  std::vector<Pass> at;

  void add(const ComputationPoint& point) {
    Pass pass{point.data_ms, point.forward_ms, point.backward_ms};
    if (!at.empty()) {
      pass.data = std::max(pass.data, at.back().data);
      pass.forward = std::max(pass.forward, at.back().forward);
      pass.backward = std::max(pass.backward, at.back().backward);
    }
    batch.push_back(static_cast<double>(point.local_batch));
    at.push_back(pass);
  }

  // Between two points on a straight line, also before the first one, where it is that of the
  // first two, or through 0.
  Pass of(double x) const {
    size_t right = 0;
    while (right + 1 < batch.size() && batch[right] < x) ++right;
    if (right == 0 && batch.size() > 1 && x < batch[0]) right = 1;
    if (right == 0) return alone(x);
    const double share = (x - batch[right - 1]) / (batch[right] - batch[right - 1]);
    const auto between = [&](double low, double high) {
      return std::max(low + share * (high - low), share < 0 ? 0.0 : low);
    };
    const auto &low = at[right - 1], &high = at[right];
    return {between(low.data, high.data), between(low.forward, high.forward),
            between(low.backward, high.backward)};
  }

  // From one point: as one worker's times go with the batch, where more of them are known.
  const Curve* of_one_worker = nullptr;
  Pass alone(double x) const {
    Pass factor{x / batch[0], x / batch[0], x / batch[0]};
    if (of_one_worker != nullptr && of_one_worker->batch.size() > 1) {
      const auto here = of_one_worker->of(x), there = of_one_worker->of(batch[0]);
      const auto ratio = [](double a, double b) { return b > 0 ? std::min(1.0, a / b) : 1; };
      factor = {ratio(here.data, there.data), ratio(here.forward, there.forward),
                ratio(here.backward, there.backward)};
    }
    return {at[0].data * factor.data, at[0].forward * factor.forward,
            at[0].backward * factor.backward};
  }
};

PassModel::PassModel(const ComputationPoint& point, const Curve& curve, double update)
    : micro_batch_(point.local_batch), concurrent_(point.concurrent) {
  const auto most = samples_per_pass();
  passes_.resize(static_cast<size_t>(most) + 1);
  for (int64_t samples = 1; samples <= most; ++samples) {
    const auto batch = (samples + concurrent_ - 1) / concurrent_;
    auto& pass = passes_[static_cast<size_t>(samples)];
    const auto& before = passes_[static_cast<size_t>(samples) - 1];
    pass = curve.of(static_cast<double>(batch));
    // Interpolation rounds: to the last bit, none may fall.
    pass.data = std::max(pass.data, before.data);
    pass.forward = std::max(pass.forward, before.forward);
    pass.backward = std::max(pass.backward, before.backward);
  }
  const auto whole = pass(most);
  full_ = whole.data + whole.forward + whole.backward;
  sync_ = point.sync_ms * static_cast<double>(concurrent_);
  update_ = update;
  fixed_ = sync_ + update_;
}

double PassModel::tail(int64_t samples, const NetworkTime& network) const {
  const auto last = pass(samples);
  return fixed_ + network.last + last.data + last.forward +
         std::max(last.backward, network.before_last);
}

double PassModel::milliseconds(int64_t samples, const NetworkTime& network) const {
  const auto before = (samples - 1) / samples_per_pass();
  return static_cast<double>(before) * full_ + tail(samples - before * samples_per_pass(), network);
}

int64_t PassModel::capacity(double ms, const NetworkTime& network, int64_t most) const {
  if (!(tail(1, network) <= ms) || most < 1) return 0;
  const auto per_pass = samples_per_pass();
  const auto limit = (most - 1) / per_pass;
  const double many = full_ > 0 ? (ms - tail(1, network)) / full_ : 0;
  auto before = std::min(limit, static_cast<int64_t>(std::min(many, 1e15)));
  const auto holds = [&](int64_t passes, int64_t samples) {
    return static_cast<double>(passes) * full_ + tail(samples, network) <= ms;
  };
  // The division rounds: what counts is the sum that milliseconds() makes.
  while (before > 0 && !holds(before, 1)) --before;
  while (before < limit && holds(before + 1, 1)) ++before;
  int64_t low = 1, high = per_pass;
  while (low < high) {
    const auto middle = (low + high + 1) / 2;
    if (holds(before, middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return std::min(most, before * per_pass + low);
}

StepParts PassModel::parts(int64_t samples, const NetworkTime& network) const {
  const auto before = (samples - 1) / samples_per_pass();
  const auto whole = pass(samples_per_pass());
  const auto last = pass(samples - before * samples_per_pass());
  const auto times = static_cast<double>(before);
  return {
      .data = times * whole.data + last.data,
      .forward = times * whole.forward + last.forward,
      .backward = times * whole.backward + last.backward,
      .sync = sync_,
      .communication = std::max(last.backward, network.before_last) - last.backward + network.last,
      .update = update_};
}

namespace {

// By concurrent workers.
std::map<int64_t, PassModel::Curve> curves_of(const DeviceProfile& profile) {
  std::map<int64_t, PassModel::Curve> curves;
  for (const auto& point : profile.computation) curves[point.concurrent].add(point);
  for (auto& [concurrent, curve] : curves) {
    if (concurrent > 1 && curves.count(1) > 0) curve.of_one_worker = &curves.at(1);
  }
  return curves;
}

}  // namespace

DeviceModel::DeviceModel(const DeviceProfile& profile, WeightSync sync, double last_share) {
  const auto curves = curves_of(profile);
  // Whatever the batch, the update goes over the same parameters: the least time that was measured.
  double update = std::numeric_limits<double>::infinity();
  for (const auto& point : profile.computation) update = std::min(update, point.update_ms);
  const double share = sync == WeightSync::kOverlap ? last_share : 1;
  int64_t samples = 0;
  for (const auto& point : profile.computation) {
    if (point.concurrent > profile.max_concurrent(point.local_batch)) continue;
    if (point.local_batch * point.concurrent > kMaxPassSamples) continue;
    samples += point.local_batch * point.concurrent;
    if (samples > kMaxTableSamples) {
      fail<DataError>("profile of '{}': passes of more than {} samples in all",
                      printable_start(profile.fingerprint), kMaxTableSamples);
    }
    const double copy = point.concurrent > 1 ? point.copy_ms : 0;
    ways_.emplace_back(point, curves.at(point.concurrent), (update + copy) * share);
  }
  if (ways_.empty()) {
    fail<DataError>("profile of '{}': no pass of up to {} samples that its memory holds",
                    printable_start(profile.fingerprint), kMaxPassSamples);
  }
}

double DeviceModel::milliseconds(int64_t samples, const NetworkTime& network) const {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& way : ways_) least = std::min(least, way.milliseconds(samples, network));
  return least;
}

int64_t DeviceModel::capacity(double ms, const NetworkTime& network, int64_t most) const {
  int64_t best = 0;
  for (const auto& way : ways_) best = std::max(best, way.capacity(ms, network, most));
  return best;
}

const PassModel& DeviceModel::fastest(int64_t samples, const NetworkTime& network) const {
  const PassModel* best = &ways_.front();
  for (const auto& way : ways_) {
    if (way.milliseconds(samples, network) < best->milliseconds(samples, network)) best = &way;
  }
  return *best;
}

Passes passes_of(const PassModel& way, int64_t samples) {
  const auto per_pass = way.micro_batch() * way.concurrent();
  const auto passes = (samples + per_pass - 1) / per_pass;
  const auto largest = std::min(samples, per_pass);
  return {.micro_batch = (largest + way.concurrent() - 1) / way.concurrent(),
          .concurrent = std::min(way.concurrent(), samples),
          .accumulation = passes - 1};
}

std::map<int64_t, double> pass_milliseconds(const DeviceProfile& profile, int64_t batch) {
  std::map<int64_t, double> times;
  for (const auto& [concurrent, curve] : curves_of(profile)) {
    const auto pass = curve.of(static_cast<double>(batch));
    times[concurrent] = pass.data + pass.forward + pass.backward;
  }
  return times;
}

}  // namespace fovea::elastic
