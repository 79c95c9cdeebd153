#include "fovea/elastic/solve/simulation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/solve/choice.h"
#include "fovea/elastic/solve/elastic_shares.h"

namespace fovea::elastic {
namespace {

constexpr double kMinutesOfHour = 60;
constexpr double kNotAhead = std::numeric_limits<double>::infinity();  // samples

// What a moment's events did to the devices that work.
struct Moment {
  bool has_joined = false;  // somebody
  bool lost_device = false;
  bool failed = false;  // one of those without a word
};

class Simulator {
 public:
  Simulator(const Trace& trace, const Cluster& cluster, const ProfileSet& profiles,
            int64_t alloc_unit, const SimulateOptions& options)
      : trace_(trace),
        head_(trace.head),
        sets_(cluster, profiles,
              {.alloc_unit = alloc_unit,
               .global_batch = trace.head.global_batch,
               .slots = options.policy == "elastic" ? trace.head.slots : 0,
               .cost_weight = options.cost_weight,
               .sync = options.sync}),
        shares_(trace.head, sets_),
        present_(cluster.hosts.size(), false),
        cluster_(cluster) {
    run_.policy = options.policy;
    batches_.push_back({0, trace.head.global_batch});
  }

  SimulatedRun run() {
    const auto& events = trace_.events;
    for (size_t i = 0; i < events.size() && !run_.is_done;) {
      const double hour = events[i].hour;
      advance(hour);
      if (run_.is_done) break;
      ++moments_;
      Moment moment;
      for (; i < events.size() && events[i].hour == hour; ++i) apply(events[i], moment);
      react(moment);
      note();
    }
    advance(head_.hours);
    note();
    run_.hours = time_;
    return std::move(run_);
  }

 private:
  void apply(const TraceEvent& event, Moment& moment) {
    if (event.kind == TraceEventKind::kBatch) return take_batch(event.global_batch);
    if (event.kind == TraceEventKind::kPrice) {
      sets_.set_price(event.type, event.price);
      price_ = sets_.price_of(set_);
      return;
    }
    const bool joins = event.kind == TraceEventKind::kJoin;
    present_[event.host] = joins;
    num_present_ += (joins ? 1 : -1) * cluster_.hosts[event.host].config.number;
    moment.has_joined |= joins;
    if (joins || !std::binary_search(set_.hosts.begin(), set_.hosts.end(), event.host)) return;
    moment.lost_device = true;
    moment.failed |= event.kind == TraceEventKind::kFail;
  }

  void react(const Moment& moment) {
    if (run_.policy == "ours") {
      react_ours(moment);
    } else if (run_.policy == "elastic") {
      react_elastic(moment);
    } else if (run_.policy == "upstream") {
      react_upstream(moment);
    } else {
      react_fixed(moment);
    }
  }

  void react_ours(const Moment& moment) {
    const double hours = moments_ > 1 ? time_ / static_cast<double>(moments_ - 1) : head_.hours;
    auto choice = choose_ours(
        sets_, present_, set_, moment.lost_device,
        {.hours = hours, .pause_s = head_.change_s, .samples = samples_, .batches = batches_});
    if (!choice.changes) return;
    if (set_.is_empty()) return start(std::move(choice.set));
    work_on(std::move(choice.set), pause_of(moment));
  }

  double pause_of(const Moment& moment) const {
    return head_.change_s + (moment.failed ? head_.detect_s : 0);
  }

  void react_elastic(const Moment& moment) {
    if (set_.is_empty() || moment.has_joined) shares_.forget();
    auto found = shares_.of(present_);
    if (set_.is_empty()) {
      start(std::move(found));
    } else if (found.hosts != set_.hosts || moment.lost_device) {
      work_on(std::move(found), pause_of(moment));
    }
    await_shares();
  }

  void await_shares() {
    const auto steps = set_.is_empty() ? std::nullopt : shares_.steps_until_known(working());
    const double samples = static_cast<double>(sets_.global_batch());
    next_shares_ = steps ? samples_ + *steps * samples : kNotAhead;
  }

  void take_shares() {
    next_shares_ = kNotAhead;
    shares_.know();
    const double ms = shares_.of(working()).ms;
    if (!(ms < set_.ms)) return;
    set_.ms = ms;
    ready_at_ = time_ + head_.change_s / kSecondsOfHour;
    note();
  }

  std::vector<bool> working() const {
    std::vector<bool> working(present_.size(), false);
    for (const auto host : set_.hosts) working[host] = true;
    return working;
  }

  // The devices that work take the batches that there are, each policy in its own shares.
  void take_batch(int64_t size) {
    if (size == sets_.global_batch()) return;
    batches_.push_back({samples_, size});
    sets_.set_global_batch(size);
    if (set_.is_empty()) return;
    const auto working = this->working();
    if (run_.policy == "ours") {
      set_.ms = sets_.ms_with_batch(set_, size);
    } else if (run_.policy == "elastic") {
      set_.ms = shares_.of(working).ms;
      await_shares();
    } else if (run_.policy == "fixed") {
      set_.ms = sets_.equal(working, set_.devices).ms;
    } else if (auto found = sets_.upstream(working); !found.is_empty()) {
      set_.ms = found.ms;
    } else {
      set_.ms = sets_.equal(working, set_.devices).ms;  // no whole number of its workers
    }
  }

  // Of a trace with batches by samples: where the run stands.
  void follow_batches() {
    const auto behind = std::upper_bound(
        trace_.batches.begin(), trace_.batches.end(), samples_,
        [](double samples, const BatchPoint& point) { return samples < point.samples; });
    take_batch(behind == trace_.batches.begin() ? head_.global_batch
                                                : std::prev(behind)->global_batch);
    next_batch_ = behind == trace_.batches.end() ? kNotAhead : behind->samples;
  }

  void react_upstream(const Moment& moment) {
    if (moment.lost_device) {
      go_back_to(epoch_start_);
      return work_on(sets_.upstream(present_), head_.restart_s);
    }
    if (set_.is_empty()) start(sets_.upstream(present_));
  }

  void end_epoch() {
    epoch_start_ = samples_;
    epoch_end_ = std::min(head_.samples, epoch_start_ + head_.epoch_samples);
    auto found = sets_.upstream(present_);
    if (found.is_empty() || !(found.ms < set_.ms)) return;
    work_on(std::move(found), head_.restart_s);
    note();
  }

  void react_fixed(const Moment& moment) {
    if (moment.lost_device) {
      const double every = head_.checkpoint_minutes / kMinutesOfHour;
      if (moment.failed) go_back_to(samples_ - std::fmod(worked_hours_, every) * rate());
      set_ = {};
    }
    if (!set_.is_empty()) return;
    auto found = sets_.equal(present_, fixed_devices_);
    if (fixed_devices_ == 0) fixed_devices_ = found.devices;
    start(std::move(found));
  }

  void go_back_to(double samples) {
    samples = std::max(0.0, samples);
    run_.lost_samples += samples_ - samples;
    samples_ = samples;
    if (!trace_.batches.empty()) follow_batches();
  }

  // The first time is no change; afterwards somebody was waited for.
  void start(WorkingSet set) {
    if (set.is_empty()) return;
    const bool is_first = !has_started_;
    work_on(std::move(set), head_.restart_s);
    if (is_first) --run_.changes;
  }

  void work_on(WorkingSet set, double pause_s) {
    set_ = std::move(set);
    price_ = sets_.price_of(set_);
    ready_at_ = time_ + pause_s / kSecondsOfHour;
    worked_hours_ = 0;
    ++run_.changes;
    has_started_ |= !set_.is_empty();
  }

  double rate() const {
    if (!(set_.ms > 0)) return 0;
    const double ms = set_.ms + head_.other_ms;
    return static_cast<double>(sets_.global_batch()) * kMillisecondsOfHour / ms;
  }

  void advance(double hour) {
    if (epoch_end_ == 0) {
      epoch_end_ = std::min(head_.samples, head_.epoch_samples);
      follow_batches();
    }
    while (time_ < hour && !run_.is_done) {
      if (set_.is_empty()) {
        run_.idle_hours += hour - time_;
        time_ = hour;
      } else if (time_ < ready_at_) {
        const double until = std::min(hour, ready_at_);
        if (ready_at_ <= hour) note();
        run_.idle_hours += until - time_;
        run_.cost += (until - time_) * price_;
        time_ = until;
        if (time_ == ready_at_) note();
      } else {
        work(hour);
      }
    }
  }

  void work(double hour) {
    const bool has_epochs = run_.policy == "upstream";
    const double target =
        std::min({next_batch_, next_shares_, has_epochs ? epoch_end_ : head_.samples});
    const double needed = std::max(0.0, target - samples_) / rate();
    const bool reaches = time_ + needed <= hour;
    const double hours = reaches ? needed : hour - time_;
    run_.cost += hours * price_;
    worked_hours_ += hours;
    samples_ = reaches ? target : samples_ + hours * rate();
    time_ = reaches ? time_ + needed : hour;
    if (!reaches) return;
    if (target >= head_.samples) {
      run_.is_done = true;
    } else if (target == next_shares_) {
      take_shares();
    } else if (target == next_batch_) {
      follow_batches();
      reconsider();
      note();
    } else {
      end_epoch();
    }
  }

  // Another batch may want other devices.
  void reconsider() {
    if (run_.policy != "ours") return;
    ++moments_;
    react_ours({});
  }

  void note() {
    const bool works = !set_.is_empty() && time_ >= ready_at_ && !run_.is_done;
    run_.samples = samples_;
    run_.points.push_back({.hour = time_,
                           .images_per_second = works ? rate() / kSecondsOfHour : 0,
                           .devices = set_.devices,
                           .present = num_present_,
                           .cost_per_hour = price_,
                           .samples = samples_,
                           .cost = run_.cost});
  }

  const Trace& trace_;
  const TraceHead& head_;
  WorkingSets sets_;
  ElasticShares shares_;  // of policy elastic
  std::vector<bool> present_;
  const Cluster& cluster_;
  SimulatedRun run_;
  WorkingSet set_;
  double time_ = 0, samples_ = 0, price_ = 0, ready_at_ = 0;
  double worked_hours_ = 0;  // since the last start
  double epoch_start_ = 0, epoch_end_ = 0;
  std::vector<BatchPoint> batches_;  // so far
  double next_batch_ = kNotAhead;    // of the trace, by samples
  double next_shares_ = kNotAhead;   // of policy elastic, by samples: other shares may be taken
  int64_t moments_ = 0, num_present_ = 0, fixed_devices_ = 0;
  bool has_started_ = false;
};

}  // namespace

SimulatedRun simulate(const Trace& trace, const Cluster& cluster, const ProfileSet& profiles,
                      int64_t alloc_unit, const SimulateOptions& options) {
  const auto& policy = options.policy;
  if (policy != "fixed" && policy != "upstream" && policy != "ours" && policy != "elastic") {
    fail<ConfigError>("--policy: found '{}'; expected fixed, upstream, ours or elastic",
                      printable_start(policy));
  }
  return Simulator(trace, cluster, profiles, alloc_unit, options).run();
}

}  // namespace fovea::elastic
