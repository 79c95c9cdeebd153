// How the next plan of a run is made up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/elastic/control/next_plan.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// One look at a situation, before requests or after some of them. What it is made from outlives it.
class MemberPlanner {
 public:
  static Orders first_orders(const PlanOptions& options);
  MemberPlanner(const Situation& situation, const PlanOptions& options, const Identity& run);

  // Whose data is not known yet has that of its first member, or of who registered first.
  Identity with_data(Identity run) const;

  const Plan& base() const { return base_; }
  const Orders& orders() const { return orders_; }
  const std::string& refused() const { return refused_; }
  std::vector<std::string>& notes() { return notes_; }
  bool is_to_regroup() const { return is_to_regroup_; }
  // How far the run is known to be.
  int64_t step() const;

  // The plan for a later step that holds these requests has been entered.
  void take_over(const Orders& orders) { orders_ = orders; }

  void apply(const std::string& id, const Request& request);

  // The plan that follows, without its generation; nothing changes: that of base().
  Plan plan(std::string* missing) const;

 private:
  const PresentWorker* find(const Registration& registration) const;
  bool is_excluded(const Registration& registration) const;
  bool is_wanted(const PresentWorker& worker) const;
  // May take part from now on.
  bool is_eligible(const PresentWorker& worker) const {
    return worker.record.state == "ready" && !is_excluded(worker.registration());
  }
  bool stays(const Member& member) const;
  bool is_member(const std::string& name) const;
  void add(const std::string& name);
  void remove(const std::string& name);
  void exclude(const Request& request);
  void exclude_registration(const Registration& registration);
  std::vector<const PresentWorker*> joiners() const;
  int64_t unit() const;
  // How many of so many can be members; what is missing where that is none.
  int64_t usable(int64_t count, std::string* missing) const;
  // Those that were chosen, where they are enough for a run.
  void keep_chosen(std::vector<const PresentWorker*>& members) const;
  std::vector<const PresentWorker*> chosen(std::string* missing) const;
  void set_members(Plan& plan, const std::vector<const PresentWorker*>& members) const;
  bool has_members_of_base(const Plan& plan) const;
  // Of members that stay those that they had, but where others are asked for.
  void set_shares(Plan& plan) const;
  // By what is known of those who were members before.
  std::vector<int64_t> parts_of_known(const Plan& plan, const std::vector<int64_t>& equal) const;
  // Who does not answer, as somebody has seen, gives nothing either.
  void set_leaving(Plan& plan) const;
  std::string reason_of(const Plan& plan) const;

  const Situation& situation_;
  const PlanOptions& options_;
  Orders orders_;
  Plan base_;  // of generation 0: there is none
  std::map<std::string, const PresentWorker*> here_;
  std::string refused_;
  std::string excluded_for_;
  std::vector<Registration> lost_;
  bool is_to_stop_ = false, is_to_regroup_ = false;
  std::vector<std::string> notes_;
};

}  // namespace fovea::elastic
