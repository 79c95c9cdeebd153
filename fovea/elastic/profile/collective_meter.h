// What collectives among a group of ranks take.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/elastic/solve/profile.h"
#include "fovea/parallel/communicator.h"

namespace fovea::elastic {

struct CollectiveMeter {
  std::string place;                // "intra", "inter"
  c10::Device device = at::kCPU;    // of the tensors
  std::vector<int64_t> bytes = {};  // of the larger side
  int64_t repeats = 9;
  std::function<void()> pause = {};  // after each size
};

// all_reduce, reduce_scatter and all_gather of float32, each of every size; of the repeats the
// median, of the ranks the slowest. Equal on all ranks. Collective over the group.
std::vector<CommunicationPoint> measure_collectives(parallel::Communicator& ranks,
                                                    const CollectiveMeter& meter);

// From small ones to the largest bucket, and some beyond.
std::vector<int64_t> sizes_to_measure(const std::vector<double>& bucket_megabytes);
// How many ranks of one machine are measured: 2, 4 ... and `most`.
std::vector<int64_t> rank_counts(int64_t most);

}  // namespace fovea::elastic
