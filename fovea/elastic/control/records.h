// What the keys of an elastic run hold. Each struct lists its fields once, for JSON out of it and
// into it; a key that is unknown or missing is refused by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/elastic/control/share_records.h"

namespace fovea::elastic {

// A worker as it registered: a name, and etcd's revision at which the key was made. Who comes again
// under its name has another one.
struct Registration {
  std::string worker{};
  int64_t created = 0;

  auto operator<=>(const Registration&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("worker", self.worker);
    v.field("created", self.created);
  }
};

struct Member {
  std::string worker{};
  int64_t created = 0;  // see Registration
  int64_t rank = 0;
  ShareRecord share{};
  std::string host{};
  std::string address{};  // by which others reach it there
  std::string device{};

  bool operator==(const Member&) const = default;
  Registration registration() const { return {worker, created}; }
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("worker", self.worker);
    v.field("created", self.created);
    v.field("rank", self.rank);
    v.field("share", self.share);
    v.field("host", self.host);
    v.field("address", self.address);
    v.field("device", self.device);
  }
};

struct MeshRecord {
  int64_t dp_replicate = 1;
  int64_t dp_shard = 1;
  int64_t cp = 1;
  int64_t tp = 1;

  bool operator==(const MeshRecord&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("dp_replicate", self.dp_replicate);
    v.field("dp_shard", self.dp_shard);
    v.field("cp", self.cp);
    v.field("tp", self.tp);
  }
};

// Where members meet: what the first of them offers.
struct StoreRecord {
  std::string address{};
  int64_t port = 0;
  std::string secret{};  // who has it is let in; it is in no message

  bool operator==(const StoreRecord&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("address", self.address);
    v.field("port", self.port);
    v.field("secret", self.secret);
  }
};

// /fovea/RUN/orders: what was asked for and outlasts a plan.
struct Orders {
  int64_t workers = 0;          // at most so many; 0: all that come
  int64_t global_batch = 0;     // 0: that of the recipe
  std::string batch_request{};  // that asked for it
  // Those told to go; under another registration they may come.
  std::vector<Registration> excluded{};
  // Those asked for by name: they come before others.
  std::vector<Registration> wanted{};

  bool operator==(const Orders&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("workers", self.workers);
    v.field("global_batch", self.global_batch);
    v.field("batch_request", self.batch_request);
    v.field("excluded", self.excluded);
    v.field("wanted", self.wanted);
  }
};

inline constexpr const char* kReasons[] = {"start",   "join",  "leave",  "death", "hang",
                                           "network", "batch", "shares", "stop",  "done"};

// Who computes what from a step on: /fovea/RUN/plan. Its mod_revision is the fencing token.
struct Plan {
  int64_t generation = 0;
  std::string reason = "start";   // one of kReasons: what changed
  std::vector<Member> members{};  // by rank; none: all park
  // Members before that are still there: they give what they hold, at ranks behind the members'.
  std::vector<Member> leaving{};
  MeshRecord mesh{};
  int64_t global_batch = 0;
  // By which global_batch was asked for: it counts once, for the batch may change by itself behind
  // it. Empty: nobody asked.
  std::string batch_request{};
  int64_t slots = 0;  // 0: shares of any size
  StoreRecord store{};
  int64_t from_step = -1;  // members change there; -1: at once
  std::string ends{};      // "stop": members save and end; "done": they end; empty: neither
  std::vector<std::string> requests{};  // that this plan fulfils at from_step
  std::vector<Plan> before{};           // of a plan with from_step: the one in force until then
  std::vector<Orders> then{};           // likewise: the orders that hold from then on
  std::vector<ShareReason> shares{};    // of a plan that changes shares: why
  std::vector<MemberTime> measured{};   // of the members before, as far as they are known

  bool operator==(const Plan&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("generation", self.generation);
    v.field("reason", self.reason);
    v.field("members", self.members);
    v.field("leaving", self.leaving);
    v.field("mesh", self.mesh);
    v.field("global_batch", self.global_batch);
    v.field("batch_request", self.batch_request);
    v.field("slots", self.slots);
    v.field("store", self.store);
    v.field("from_step", self.from_step);
    v.field("ends", self.ends);
    v.field("requests", self.requests);
    v.field("before", self.before);
    v.field("then", self.then);
    v.optional_field("shares", self.shares);
    v.optional_field("measured", self.measured);
  }
};

// What a run trains: who comes with another is refused.
struct Identity {
  std::string recipe{};  // a sum of its text
  std::string data{};    // a sum of what was opened; empty in a run's: that of its first worker
  std::string version{};

  bool operator==(const Identity&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("recipe", self.recipe);
    v.field("data", self.data);
    v.field("version", self.version);
  }
};
// "data: 60000 samples here, 59999 in the run"; empty: they agree.
std::string difference(const Identity& here, const Identity& run);

// /fovea/RUN/workers/NAME, with a lease.
struct WorkerRecord {
  std::string host{};
  int64_t process = 0;
  std::string device{};
  std::string state = "starting";  // "ready": may be a member; "leaving": gives before it goes
  StoreRecord store{};             // that it offers
  Identity identity{};
  int64_t generation = 0;  // that it has entered
  bool has_state = false;  // of the run: it has something to give
  int64_t step = 0;        // where it was when it wrote this
  int64_t position = 0;
  int64_t global_batch = 0;  // of the next step; 0: not known yet
  // Over the last steps of this generation that it timed: so many, ms for a row of its own part,
  // and ms of a step in collectives.
  int64_t timed_steps = 0;
  double row_ms = 0;
  double comm_ms = 0;
  double pause_s = 0;  // without a step, when it entered the generation

  bool operator==(const WorkerRecord&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("host", self.host);
    v.field("process", self.process);
    v.field("device", self.device);
    v.field("state", self.state);
    v.field("store", self.store);
    v.field("identity", self.identity);
    v.field("generation", self.generation);
    v.field("has_state", self.has_state);
    v.field("step", self.step);
    v.field("position", self.position);
    v.field("global_batch", self.global_batch);
    v.optional_field("timed_steps", self.timed_steps);
    v.optional_field("row_ms", self.row_ms);
    v.optional_field("comm_ms", self.comm_ms);
    v.optional_field("pause_s", self.pause_s);
  }
};

// /fovea/RUN/requests/ID.
struct Request {
  std::string kind{};        // "scale", "add", "remove", "stop", "exclude", "batch", "regroup"
  int64_t workers = 0;       // of scale: so many; 0: all that come
  std::string worker{};      // of add, remove and exclude
  int64_t at_step = -1;      // -1: at once
  std::string reason{};      // of exclude: "hang" or "network"
  int64_t generation = 0;    // of exclude and regroup: in which this was seen
  int64_t global_batch = 0;  // of batch

  bool operator==(const Request&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("kind", self.kind);
    v.field("workers", self.workers);
    v.field("worker", self.worker);
    v.field("at_step", self.at_step);
    v.field("reason", self.reason);
    v.field("generation", self.generation);
    v.field("global_batch", self.global_batch);
  }
};

// /fovea/RUN/commit: the last checkpoint that stands.
struct Commit {
  int64_t generation = 0;
  int64_t step = 0;
  int64_t position = 0;
  std::string checkpoint{};  // folder, below the run's
  std::string sum{};         // of its manifest
  bool is_done = false;      // the run has come to its end

  bool operator==(const Commit&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("generation", self.generation);
    v.field("step", self.step);
    v.field("position", self.position);
    v.field("checkpoint", self.checkpoint);
    v.field("sum", self.sum);
    v.field("is_done", self.is_done);
  }
};

// What a schedule is made by.
struct PlanOptions {
  int64_t min_workers = 1;
  int64_t max_workers = 0;  // 0: all that come
  MeshRecord mesh{};        // tp and cp stay; dp_replicate follows
  bool dp_shard_follows = false;
  int64_t global_batch = 1;
  int64_t slots = 0;
  // Shares follow how fast members are, where that takes this part of a step's time off it or more,
  // and has held for so many steps.
  bool shares_by_speed = false;
  double shares_gain = 0.1;
  int64_t shares_after = 50;

  bool operator==(const PlanOptions&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("min_workers", self.min_workers);
    v.field("max_workers", self.max_workers);
    v.field("mesh", self.mesh);
    v.field("dp_shard_follows", self.dp_shard_follows);
    v.field("global_batch", self.global_batch);
    v.field("slots", self.slots);
    v.optional_field("shares_by_speed", self.shares_by_speed);
    v.optional_field("shares_gain", self.shares_gain);
    v.optional_field("shares_after", self.shares_after);
  }
};

// /fovea/RUN/run: which run has the name.
struct RunRecord {
  std::string dir{};
  std::string recipe{};  // the text, for workers that bring none
  Identity identity{};
  PlanOptions options{};

  bool operator==(const RunRecord&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("dir", self.dir);
    v.field("recipe", self.recipe);
    v.field("identity", self.identity);
    v.field("options", self.options);
  }
};

// What differs; empty: it is the same run.
std::string difference(const RunRecord& here, const RunRecord& there);

// /fovea/RUN/leader, with a lease.
struct LeaderRecord {
  std::string name{};
  std::string host{};
  int64_t process = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("name", self.name);
    v.field("host", self.host);
    v.field("process", self.process);
  }
};

// A line of RUN/events.jsonl: a change, how long its parts took (s), and what it cost.
struct Event {
  int64_t generation = 0;
  std::string reason{};
  std::vector<std::string> workers{};
  int64_t step = 0;
  int64_t position = 0;
  double detect_s = 0, agree_s = 0, groups_s = 0, relay_s = 0, pause_s = 0;
  int64_t bytes_from_peers = 0;
  int64_t bytes_from_checkpoint = 0;
  int64_t steps_lost = 0;
  double time = 0;  // s since 1970, once steps go on
  int64_t global_batch = 0;
  std::vector<int64_t> rows{};         // of it, of each worker
  std::vector<ShareReason> shares{};   // see Plan
  std::vector<MemberTime> measured{};  // likewise: in the generation before

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("generation", self.generation);
    v.field("reason", self.reason);
    v.field("workers", self.workers);
    v.field("step", self.step);
    v.field("position", self.position);
    v.field("detect_s", self.detect_s);
    v.field("agree_s", self.agree_s);
    v.field("groups_s", self.groups_s);
    v.field("relay_s", self.relay_s);
    v.field("pause_s", self.pause_s);
    v.field("bytes_from_peers", self.bytes_from_peers);
    v.field("bytes_from_checkpoint", self.bytes_from_checkpoint);
    v.field("steps_lost", self.steps_lost);
    v.optional_field("time", self.time);
    v.optional_field("global_batch", self.global_batch);
    v.optional_field("rows", self.rows);
    v.optional_field("shares", self.shares);
    v.optional_field("measured", self.measured);
  }
};

// A line of RUN/samples/WORKER.jsonl: what a worker computed of a step. position: that of the
// step's global batch.
struct SampleLine {
  int64_t generation = 0;
  int64_t step = 0;
  int64_t position = 0;
  std::vector<int64_t> ids{};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("generation", self.generation);
    v.field("step", self.step);
    v.field("position", self.position);
    v.field("ids", self.ids);
  }
};

// RUN/elastic.json: where the run's etcd is, for commands that are given the folder.
struct RunPlace {
  std::string etcd{};
  std::string run{};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("etcd", self.etcd);
    v.field("run", self.run);
  }
};

// Of each of them: Plan, WorkerRecord, Request, Orders, Commit, RunRecord, LeaderRecord, Event,
// SampleLine, RunPlace. from_json throws DataError naming `source` (the key or file) and the field.
template <class Record>
std::string to_json(const Record& record);
template <class Record>
Record from_json(std::string_view text, const std::string& source);

// The keys of a run, below its prefix "/fovea/RUN/".
class RunKeys {
 public:
  // Throws ConfigError: a name that is empty, longer than 100 bytes, or of others than letters,
  // digits and _ - .
  explicit RunKeys(const std::string& run);

  const std::string& run() const { return run_; }
  const std::string& prefix() const { return prefix_; }
  std::string leader() const { return prefix_ + "leader"; }
  std::string run_record() const { return prefix_ + "run"; }
  std::string plan() const { return prefix_ + "plan"; }
  std::string orders() const { return prefix_ + "orders"; }
  std::string commit() const { return prefix_ + "commit"; }
  std::string proposal() const { return prefix_ + "proposal"; }
  std::string workers() const { return prefix_ + "workers/"; }
  std::string requests() const { return prefix_ + "requests/"; }
  std::string worker(const std::string& name) const { return workers() + name; }
  std::string request(const std::string& id) const { return requests() + id; }

 private:
  std::string run_, prefix_;
};
// The same rule, of a worker's name.
void check_name(const std::string& what, const std::string& name);

}  // namespace fovea::elastic
