// How fast a model trains and infers on this machine, and how near that comes to what the machine
// can do.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fovea/nn/tensor_file.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// How the machine's peaks are measured.
struct PeakProbe {
  int64_t repeats = 3;  // of each product; the best counts
  // Sides of the products, and the memory, are divided by this: quicker, and less of a peak.
  int64_t shrink = 1;
};

struct BenchOptions {
  std::string name;    // what the result is called
  TrainConfig config;  // the model, and of a recipe also its task, optimizer and patches
  // A training step of a recipe is its own, gradients clipped and all; of a model alone it is
  // forward, cross-entropy, backward and AdamW, as peers are measured.
  bool is_recipe = false;
  bool is_training = true;  // else forward alone
  // Products of 8-bit integers, of forward alone (device.dtype: int8); calibrated: on that noise.
  bool is_int8 = false;
  int64_t batch_size = 32;
  int64_t warmup_steps = 3;  // not timed
  int64_t steps = 10;        // timed
  PeakProbe peak = {};
};

struct BenchResult {
  std::string name;
  std::string mode;  // "train" or "infer"
  std::string dtype;
  std::string device;
  int64_t threads = 0;
  int64_t batch_size = 0;
  int64_t steps = 0;
  double images_per_second = 0;  // of the median step
  double step_ms = 0;            // median
  double step_ms_min = 0, step_ms_max = 0, step_ms_p99 = 0;
  double cpu_ms = 0;  // processor time of the process for a step, mean
  double gflops_per_second =
      0;  // of matrix products: 2 a multiply-add, backward counted as twice the forward
  double gemm_gflops_per_second = 0;  // the machine's own peak, see measure_gemm_peak
  double gemm_share = 0;              // the one over the other
  int64_t peak_memory_bytes =
      0;  // of the process, during these steps; 0 where the system does not say

  // Of a step, see kernels/host_waits.h, and by the operator that waits; on a CPU there are none.
  int64_t host_waits = 0;
  std::map<std::string, int64_t> host_waits_by_operator;

  std::string to_json() const;
};

// Runs the model on noise with step-0 weights. The machine's peak is measured before and after, in
// the same process. Throws ConfigError for a model that cannot be built, and for int8 of training.
BenchResult bench_model(const BenchOptions& options);

// A training step of that workload, the one after the warm-up, for a comparison with another
// system: "images" [B, C, sides] float32, "labels" [B] int64, "weights.NAME" before the step and
// "gradients.NAME" of the mean loss, not clipped, of each parameter that is trained; float32.
// Throws ConfigError where there is more to a step than images and their classes: masks, adaptive
// patches, mixed labels.
nn::NamedTensors bench_gradients(const BenchOptions& options);

// The best rate of a few large matrix products in this dtype, in FLOP/s; what a model can be held
// against. Three repeats take about a second.
double measure_gemm_peak(const ComputeOptions& compute, const PeakProbe& probe);

}  // namespace fovea::train
