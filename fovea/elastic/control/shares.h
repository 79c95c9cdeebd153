// Which part of a batch each member takes, by how fast it was measured to be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fovea/elastic/control/next_plan.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// Note [Shares by speed]
// A member's own time of a step, without that in collectives, is taken to go with its rows; the
// step takes the longest of them and the exchange, which is the least time that a member is in
// collectives. Whole parts, slots or rows, go to the members so that the longest is the shortest
// there is. What does not go with the rows makes this a step in the right direction that ends where
// all take equally long, for each generation is measured anew.
//
// The leader changes shares where the expected step is shorter by shares_gain or more, has been so
// in each look for shares_after steps, and what was lost by waiting has come to what a change
// pauses: whoever waits so long loses at most twice what the best choice would have. Each change of
// shares doubles the steps for the next one, until the members are others.
//
// Where ranks meet within passes (ZeRO 2 and 3) they go through their passes together, and shares
// stay equal.

// ms_per_part of each place, all above 0; one part each at least, parts >= places. The least
// maximum of parts x ms_per_part.
std::vector<int64_t> parts_by_speed(const std::vector<double>& ms_per_part, int64_t parts);
// As equal as can be.
std::vector<int64_t> equal_parts(int64_t places, int64_t parts);
// One place behind the other.
std::vector<ShareRecord> shares_of_parts(const std::vector<int64_t>& parts);

// What is known of a plan's members; those without a measurement in this generation are left out.
std::vector<MemberTime> measured_times(const Plan& plan, const Situation& situation);
// ms for a row of the members that share a place of the mesh, the slowest of them; 0: not known.
std::vector<double> place_row_ms(const Plan& plan, const std::vector<MemberTime>& times);

// Parts for places with these ms of a row (0: not known, the mean of others is taken). Equal ones
// where nothing is known, or the others gain less than options.shares_gain. parts: slots, or rows.
std::vector<int64_t> fitting_parts(const std::vector<double>& row_ms, int64_t parts,
                                   const PlanOptions& options);

// Looks at a situation again and again; what it has seen ends with it.
class ShareWatch {
 public:
  // ms that a worker's profile says of so many rows; nothing: it has none.
  using Predict = std::function<std::optional<double>(const PresentWorker&, int64_t rows)>;

  // now_s: of a steady clock.
  std::optional<ShareChange> look(const Situation& situation, const PlanOptions& options,
                                  double now_s, const Predict& predict = {});

 private:
  int64_t generation_ = 0;
  int64_t gains_since_step_ = -1;  // -1: shares stand
  double gains_since_s_ = 0;
  std::vector<Registration> members_;
  int64_t changes_ = 0;  // of shares, among these members
};

}  // namespace fovea::elastic
