// How often the host waits for a device while it prepares its work.
//
// Note [Host waits]
// A GPU computes while the host is ahead of it. Where the host asks for what the GPU has made, or
// has it copied in a way that ends when the copy is over, it stands still until the GPU has caught
// up, and then the GPU until the host has. A training step has none of that: what there is to know
// is asked for when a line of the log is due. Counted are operators of libtorch whose results have
// the host wait (values, shapes that depend on values), and copies between host and device other
// than those that are not waited for and of pinned memory. Waits of our own for events are in what
// is done once, on first sight: measuring attention and products, recording a graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace fovea::kernels {

// Counts those of all threads while it lives; one at a time. It costs microseconds an operator, so
// nothing is timed meanwhile.
class HostWaits {
 public:
  HostWaits();
  ~HostWaits();
  HostWaits(const HostWaits&) = delete;
  HostWaits& operator=(const HostWaits&) = delete;

  int64_t count() const;
  // By the operator that waits: "aten::copy_".
  std::map<std::string, int64_t> by_operator() const;

 private:
  uint64_t callback_ = 0;
};

}  // namespace fovea::kernels
