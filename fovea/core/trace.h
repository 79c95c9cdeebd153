// What this process did when, as a timeline in Chrome's trace format (chrome://tracing, Perfetto).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::trace {

struct Span {
  std::string name;      // "forward"
  std::string category;  // "step"; kCollective: may overlap others
  int64_t begin = 0;     // microseconds since 1970
  int64_t end = 0;
  int64_t bytes = -1;      // -1: none is said
  std::string group = {};  // of ranks, as Communicator::name() has it
};

inline constexpr const char* kStep = "step";
inline constexpr const char* kCollective = "collective";
inline constexpr const char* kWait = "wait";

// One for the process; from any thread. Off: nothing is kept, and asking costs a load.
bool is_on();
void start();
// -> what was added since start(), by begin.
std::vector<Span> stop();

int64_t now();  // microseconds since 1970; never goes back within a process
// Nothing happens while the trace is off.
void add(Span span);

// A span as long as this lives.
class Scope {
 public:
  explicit Scope(const char* name, const char* category = kStep);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const char* name_;
  const char* category_;
  int64_t begin_;  // -1: the trace was off
};

// The events of one process, `rank` as its pid. Spans of kCollective lie in as many rows as
// overlap.
std::string to_chrome(const std::vector<Span>& spans, int64_t rank);
// Files of to_chrome as one, by pid. Throws DataError where one cannot be read.
std::string merge_chrome(const std::vector<std::string>& paths);

}  // namespace fovea::trace
