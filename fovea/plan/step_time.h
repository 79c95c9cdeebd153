// How long a step takes on a machine.
#pragma once

#include <map>
#include <string>

#include "fovea/plan/machine_profile.h"
#include "fovea/plan/rehearsal.h"

namespace fovea::plan {

// Seconds that a collective of `bytes`, as Communicator counts them, takes among `ranks`. Ring
// algorithms for the bytes, trees for the messages:
//   all_reduce                    2 (n-1)/n bytes / bandwidth + 2 ceil(log2 n) latency
//   all_gather, reduce_scatter      (n-1)/n bytes / bandwidth +   ceil(log2 n) latency
//   all_to_all                      (n-1)/n bytes / bandwidth +          (n-1) latency
//   shift                                   bytes / bandwidth +                latency
//   broadcast                               bytes / bandwidth +   ceil(log2 n) latency
// Within a node the bandwidth is that of its links. Of a group of several nodes each of its ranks
// on a node brings a port: g intra-node neighbours give min(intra, g inter), of an all_to_all inter
// alone, for the share of the bytes that leaves the node.
double collective_seconds(const MachineProfile& machine, const std::vector<int64_t>& ranks,
                          parallel::Collective collective, int64_t bytes);

struct StepTime {
  double step = 0;      // seconds
  double products = 0;  // matrix products
  double memory = 0;    // reading and writing tensors between them
  double exposed = 0;   // waiting for collectives
  std::map<std::string, double> exposed_by_axis;
  std::map<std::string, double> busy_by_axis;  // in collectives, overlapped or not
};

// Note [Step time]
// The rank's events are played one after the other. Work takes FLOPs / rate plus three times the
// bytes of what was made / memory bandwidth: a tensor is written once, and two are read for it; the
// optimizer's update, which makes none, at least what it reads and writes in place. A
// collective takes its link (within the node, or between nodes) from its start, or from the end of
// the one before it on that link, while work goes on; waiting for it takes what is left. So what
// overlaps and what does not is as the code has it. Loading data, launching kernels and ranks that
// are late count as nothing: real steps take longer, and meshes compare.
StepTime step_time(const Rehearsal& rehearsal, const MachineProfile& machine,
                   c10::ScalarType dtype);

}  // namespace fovea::plan
