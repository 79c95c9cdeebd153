// Which of the workers that are there should compute.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/control/next_plan.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// /fovea/RUN/proposal, for who looks at a run.
struct Proposal {
  int64_t generation = 0;                // of the plan that it is about
  std::vector<std::string> take{};       // workers that wait
  std::vector<std::string> drop{};       // members
  bool is_worth_it = false;              // a change is made, where changes are applied
  std::string reason{};                  // in words
  double now_ms = 0, then_ms = 0;        // of a step, as profiles predict it; 0: not known
  double now_price = 0, then_price = 0;  // of an hour
  double pause_s = 0;                    // that a change takes
  double hours = 0;                      // expected until workers come or go

  bool operator==(const Proposal&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("generation", self.generation);
    v.field("take", self.take);
    v.field("drop", self.drop);
    v.field("is_worth_it", self.is_worth_it);
    v.field("reason", self.reason);
    v.field("now_ms", self.now_ms);
    v.field("then_ms", self.then_ms);
    v.field("now_price", self.now_price);
    v.field("then_price", self.then_price);
    v.field("pause_s", self.pause_s);
    v.field("hours", self.hours);
  }
};

struct Advice {
  Proposal proposal{};
  // Who is to compute; nothing: all that can, as profiles do not say.
  std::optional<std::vector<Registration>> members{};
};

// What the leader asks in each look at a run; it keeps what it has seen.
class Adviser {
 public:
  Adviser() = default;
  virtual ~Adviser() = default;
  Adviser(const Adviser&) = delete;
  Adviser& operator=(const Adviser&) = delete;

  // now_s: of a steady clock.
  virtual Advice look(const Situation& situation, const PlanOptions& options, double now_s) = 0;
  // ms of a worker's own part of a step with so many rows, by its profile; nothing: it has none.
  virtual std::optional<double> profile_ms(const PresentWorker& worker, int64_t rows) const = 0;
  // Whether its members are the run's, or shown alone.
  virtual bool is_applied() const = 0;
};

}  // namespace fovea::elastic
