// The sizes of the global batches of a training, as a function of the samples before them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::data {

// From `position` on, the samples before it over all epochs, batches have `size` samples.
struct BatchSizeChange {
  int64_t position = 0;
  int64_t size = 0;
  std::string where = {};  // "growing.yaml:3", for messages; empty: not of a file

  bool operator==(const BatchSizeChange& other) const {
    return position == other.position && size == other.size;
  }
};

// In rising order; what there is before the first one is a loader's global_batch_size.
using BatchSchedule = std::vector<BatchSizeChange>;

// Reads a list of {position, size}, YAML or JSON. Throws ConfigError with every fault, by line:
// what is no such list, a size below 1, positions that do not rise.
BatchSchedule read_batch_schedule(const std::string& path);
// What read_batch_schedule reads.
std::string batch_schedule_text(const BatchSchedule& schedule);
// Writes it, whole or not at all. Throws WriteError.
void write_batch_schedule(const std::string& path, const BatchSchedule& schedule);

// What has an effect on the batches before `position`.
BatchSchedule schedule_before(const BatchSchedule& schedule, int64_t position);

}  // namespace fovea::data
