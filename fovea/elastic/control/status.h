// What `fovea elastic` says of a run and asks of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/proposal.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

struct MemberStatus {
  std::string worker;
  int64_t rank = 0;
  int64_t rows = 0;  // of the global batch
  std::string device;
  std::string host;
  int64_t lease_s = 0;  // until its lease ends, if it is not extended; 0: it has ended
};

struct RunStatus {
  std::string run;
  std::string state;  // "waiting", "running", "parked", "stopping", "stopped", "done"
  int64_t generation = 0;
  std::string leader;  // empty: nobody at the moment
  int64_t step = 0;    // as far as members have said
  int64_t position = 0;
  int64_t global_batch = 0;
  std::vector<MemberStatus> members{};
  std::vector<std::string> waiting{};  // workers that are no members
  std::string missing{};               // what keeps the run from going on
  std::optional<Proposal> proposal{};  // of who schedules, from profiles
  int64_t next_step = -1;              // at which a change was asked for; -1: none
};

// The runs that an etcd knows, by name.
std::vector<std::string> runs_of(EtcdClient& client);
// The one that is meant: `run`, or with an empty one the only one there is. Throws ConfigError: no
// such run, and which there are.
RunKeys find_run(EtcdClient& client, const std::string& run);

RunStatus read_status(EtcdClient& client, const RunKeys& keys);

// Leaves a request for who schedules, after a look whether it can be fulfilled. Throws ConfigError:
// a worker that is not there, a run that has ended. Returns a step that was asked for and is passed
// already, at which it happens at once; -1: none.
int64_t ask(EtcdClient& client, const RunKeys& keys, const Request& request);

// RUN/elastic.json. The file is replaced as a whole. Throws WriteError.
void write_run_place(const std::string& run_dir, const RunPlace& place);
// What a run folder says; both empty where `run` is no folder of an elastic run but a name.
RunPlace read_run_place(const std::string& run);

}  // namespace fovea::elastic
