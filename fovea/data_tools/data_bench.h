// How fast a data set comes through its loader, where the time goes, and how near that is to what
// the machine can do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/data/loader_setup.h"
#include "fovea/data/stage_timer.h"

namespace fovea::data {

struct DataBenchOptions {
  std::string name;                    // what the results are called
  std::vector<int64_t> threads = {1};  // loaders of so many threads, measured in turn
  int64_t rounds = 5;                  // of one window each
  double seconds = 1.0;                // of a window, and at most of each warming up
  // At most, whatever the recipe says: it changes the memory, not the work. Batches are smaller
  // where samples are so slow that a window would not hold several of these.
  int64_t batch_size = 64;
  PixelType pixel_type = PixelType::kFloat32;
  uint64_t seed = 42;
  // Called with what is being done, often enough for a progress line.
  std::function<void(const std::string& what)> progress = {};
};

// What a loader is held against. Image files: decoding them whole into reused buffers, from memory,
// and nothing else. Stored pixels: moving a sample's bytes in and the batch's out, as fast as
// memory can be copied.
enum class MachineLimit { kFullDecode, kMemory };

struct DataBenchResult {
  std::string name;
  std::string dtype;  // "float32" or "uint8"
  int64_t threads = 0;
  int64_t batch_size = 0;
  int64_t rounds = 0;
  double images_per_second = 0;  // median of the rounds
  double images_per_second_min = 0, images_per_second_max = 0;
  double cpu_ms = 0;  // of the whole process for a sample, median
  // Milliseconds a sample in each stage by the clock on the wall, median; where other programs take
  // the cores these are longer than the time of the processor. Of windows of their own.
  std::array<double, kNumStages> stage_ms = {};
  MachineLimit limit = MachineLimit::kFullDecode;
  double limit_images_per_second = 0;  // with as many threads, median
  double limit_cpu_ms = 0;             // of the process for a sample, median
  double limit_share = 0;              // images_per_second over that
  double limit_cpu_share = 0;          // limit_cpu_ms over cpu_ms: hardly depends on other programs

  std::string to_json() const;
};

// One result for each number of threads. The rounds go over all of them and their limits, so that
// whatever else the machine does hits all alike. A round of one takes at most four times
// options.seconds, and what a few samples take. Throws ConfigError or DataError as the loader
// does.
std::vector<DataBenchResult> bench_data(const LoaderSetup& setup, const DataBenchOptions& options);

}  // namespace fovea::data
