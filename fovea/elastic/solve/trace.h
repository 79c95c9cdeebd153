// What happened to a cluster: a file of lines, each a JSON object.
//   {"config": "cluster.json", "global_batch": 8192, "samples": 1e9, "hours": 720}
//   {"hour": 0, "event": "join", "host": "node0"}
//   {"hour": 3.5, "event": "fail", "host": "node0"}
//   {"samples": 2e8, "event": "batch", "global_batch": 16384}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/elastic/solve/choice.h"
#include "fovea/elastic/solve/cluster.h"

namespace fovea::elastic {

// The first line: what is trained, and what changes take.
struct TraceHead {
  std::string config{};  // as `elastic solve` takes it: cluster and profiles
  int64_t global_batch = 0;
  double samples = 0;              // until the run is done
  double hours = 0;                // until the trace ends
  double epoch_samples = 0;        // 0: one epoch
  double change_s = 2;             // pause of an elastic run for a change
  double detect_s = 3;             // until a failure is seen
  double restart_s = 60;           // to stop, start and load anything else
  double checkpoint_minutes = 30;  // between two of a run that is not elastic
  int64_t slots = 0;               // of policy elastic: parallel.slots
  // Of policy elastic: the keys of `elastic:` in a recipe.
  std::string shares = "speed";
  double shares_gain = 0.1;
  int64_t shares_after = 50;
  double other_ms = 0;  // of a step, in evaluations, checkpoints and the like

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("config", self.config);
    v.field("global_batch", self.global_batch);
    v.field("samples", self.samples);
    v.field("hours", self.hours);
    v.optional_field("epoch_samples", self.epoch_samples);
    v.optional_field("change_s", self.change_s);
    v.optional_field("detect_s", self.detect_s);
    v.optional_field("restart_s", self.restart_s);
    v.optional_field("checkpoint_minutes", self.checkpoint_minutes);
    v.optional_field("slots", self.slots);
    v.optional_field("shares", self.shares);
    v.optional_field("shares_gain", self.shares_gain);
    v.optional_field("shares_after", self.shares_after);
    v.optional_field("other_ms", self.other_ms);
  }
};

enum class TraceEventKind {
  kJoin,
  kLeave,  // with a word before it goes: its state can be given or saved
  kFail,   // without
  kPrice,  // of a kind of device
  kBatch,  // the global batch, by hour
};

struct TraceEvent {
  double hour = 0;
  TraceEventKind kind = TraceEventKind::kJoin;
  size_t host = 0;     // its place in the cluster
  std::string type{};  // of price
  double price = 0;    // of a device and hour
  int64_t global_batch = 0;
};

struct Trace {
  TraceHead head;
  std::vector<TraceEvent> events;  // none goes back in time
  // The global batch by the samples that the run is at: none goes back. There are none where events
  // say it by the hour.
  std::vector<BatchPoint> batches{};
};

// Reads the first line alone, which says where the cluster is. otherwise: what holds where the line
// says nothing.
TraceHead parse_trace_head(std::string_view line, const std::string& source,
                           const TraceHead& otherwise = {});
// Throws DataError, with the line and the key, for what is no trace: hours that go back, hosts and
// types that the cluster has not, who joins twice or leaves before it has joined, batches by
// samples that go back, or beside batches by the hour.
Trace parse_trace(std::string_view text, const std::string& source, const Cluster& cluster,
                  const TraceHead& otherwise = {});
// The lines of a trace, as they are read.
std::string trace_text(const Trace& trace, const Cluster& cluster);

}  // namespace fovea::elastic
