// Which plan follows from who is there and what was asked for: a function of its arguments alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

struct PresentWorker {
  std::string name;
  int64_t created = 0;  // see Registration
  WorkerRecord record{};

  Registration registration() const { return {name, created}; }
};

struct PresentRequest {
  std::string id;
  int64_t created = 0;  // they are taken in this order
  Request request{};
};

// That members of this generation take other parts of a batch, by place; see Note [Shares by
// speed].
struct ShareChange {
  int64_t generation = 0;
  std::vector<int64_t> parts{};
  ShareReason reason{};
};

// What etcd holds of a run at one revision, and what the leader makes of it.
struct Situation {
  std::vector<PresentWorker> workers{};
  std::vector<PresentRequest> requests{};
  std::optional<Plan> plan{};
  std::optional<Orders> orders{};
  std::optional<Commit> commit{};
  std::optional<ShareChange> shares{};
  // Who may be a member, besides those asked for by name; others wait. Nothing: everybody.
  std::optional<std::vector<Registration>> chosen{};
};

// The plan that holds now, which there must be: of one for a later step that nobody has entered the
// one before, of one that somebody has entered that alone.
Plan plan_in_force(const Situation& situation);
// Samples of the next step as far as members have said, for a batch may change by itself; else the
// plan's.
int64_t batch_of(const Plan& plan, const Situation& situation);
// Whether a checkpoint was made under the plan, or a later one.
bool is_saved_under(const Plan& plan, const Situation& situation);

struct NextPlan {
  std::optional<Plan> plan{};          // to be written; nothing: the one in force stands
  std::optional<Orders> orders{};      // likewise
  std::vector<std::string> handled{};  // requests that are done with, by id
  std::vector<std::string> notes{};    // what could not be done of them, for the log
  std::vector<std::string> waiting{};  // workers that are no members of the plan that results
  std::string data{};                  // of Identity: what members have opened
  std::string missing{};               // what keeps the run from going on; empty: nothing
};

// A request to regroup, of a member that lost the others though all live, makes a plan of the same
// members. A plan has a place to meet that no plan before had: until its first member offers one,
// it is waited for.
//
// Members that stay keep their order; others come behind them, those that registered first in
// front. They have contiguous shares: while they stay those that they had, or that the situation
// asks for; others as equal as can be, or by what is known of their speed. Of a plan that is
// returned and written nothing follows but where the situation changes.
//
// A request with at_step comes as a plan with from_step, of which the plan before is a part, and
// stays among the requests until a member says that it has entered that plan. A change that cannot
// wait, as of a death, goes out from the plan before; what was asked for is planned again behind
// it.
NextPlan next_plan(const Situation& situation, const PlanOptions& options, const Identity& run);

}  // namespace fovea::elastic
