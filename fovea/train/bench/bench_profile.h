// Where the time of a step goes, and how far each kind of operation is from what this machine can
// do.
#pragma once

#include <string>
#include <vector>

#include "fovea/train/bench/bench.h"

namespace fovea::train {

struct ProfileRow {
  std::string name;  // "aten::add", "fovea::linear"; see Note [Operations]
  int64_t calls = 0;
  double ms = 0;
  double share = 0;      // of the step
  double gflops = 0;     // of matrix products
  double megabytes = 0;  // read and written once each
  double floor_ms = 0;   // the longer of products at the machine's rate and bytes at its bandwidth
  double ratio() const { return floor_ms > 0 ? ms / floor_ms : 0; }
};

struct ProfileResult {
  std::string name, mode, dtype;
  int64_t threads = 0, batch_size = 0, steps = 0;
  double step_ms = 0;            // of the median step, which the rows are of
  double outside_ms = 0;         // of it, between operations: autograd, allocation, our own C++
  std::vector<ProfileRow> rows;  // the longest first
  double gemm_gflops_per_second = 0;
  double memory_gigabytes_per_second = 0;

  std::string to_text() const;  // a table
  std::string to_json() const;  // one object
};

// Runs the workload of bench_model and logs the operations of each step. Where the trace is on
// (fovea/core/trace.h), the timed steps are in it. Logging takes a microsecond or two an operation.
// Throws ConfigError for a device that works in the background, such as a GPU: its clocks are
// elsewhere.
ProfileResult profile_model(const BenchOptions& options);

// The best rate of c = a + b over tensors that are too large for any cache, in bytes/s, counting
// two reads and a write. Takes about a second.
double measure_memory_bandwidth(const ComputeOptions& compute, const PeakProbe& probe);

}  // namespace fovea::train
