// Of records.h: parts of a batch, and how long they take.
#pragma once

#include <cstdint>
#include <string>

namespace fovea::elastic {

// A part of a global batch of R rows: those from R * first / of to before R * last / of. With
// slots, `of` is their number.
struct ShareRecord {
  int64_t first = 0;
  int64_t last = 1;
  int64_t of = 1;

  bool operator==(const ShareRecord&) const = default;
  int64_t rows(int64_t global_batch) const {
    return global_batch * last / of - global_batch * first / of;
  }
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("first", self.first);
    v.field("last", self.last);
    v.field("of", self.of);
  }
};

// How long a member's part of a step took it, computing alone: mean over its last steps.
struct MemberTime {
  std::string worker{};
  int64_t rows = 0;    // of a step
  double own_ms = 0;   // for them
  double comm_ms = 0;  // in collectives, which is the exchange and waiting for others
  int64_t steps = 0;   // that this is the mean of

  bool operator==(const MemberTime&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("worker", self.worker);
    v.field("rows", self.rows);
    v.field("own_ms", self.own_ms);
    v.field("comm_ms", self.comm_ms);
    v.field("steps", self.steps);
  }
};

// Why members' shares change: ms of a step, as it was measured and as it is expected to be, and
// what profiles say of the slowest part as it was (0: there are none).
struct ShareReason {
  double measured_ms = 0;
  double expected_ms = 0;
  double profile_ms = 0;

  bool operator==(const ShareReason&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("measured_ms", self.measured_ms);
    v.field("expected_ms", self.expected_ms);
    v.field("profile_ms", self.profile_ms);
  }
};

}  // namespace fovea::elastic
