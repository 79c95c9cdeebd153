// What a machine can do: what predicted seconds are made of.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::plan {

// A rank is a GPU, or a process. Rates are those that are reached, not those of the data sheet.
struct MachineProfile {
  std::string name = {};
  int64_t ranks_per_node = 8;
  double float32_tflops = 1;  // products
  double bfloat16_tflops = 1;
  double fp8_tflops = 0;
  double memory_bandwidth = 100;     // GB/s
  double intra_node_bandwidth = 10;  // GB/s of one rank in one direction, to ranks of its node
  double inter_node_bandwidth = 1;   // GB/s of one rank in one direction, to other nodes
  double intra_node_latency = 10;    // microseconds of one message
  double inter_node_latency = 20;
  double memory = 16;  // GiB of one rank

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("name", self.name, "what the output calls it");
    v.field("ranks_per_node", self.ranks_per_node, "ranks of one machine", {.min = 1});
    v.field("float32_tflops", self.float32_tflops, "rate of products in float32 that is reached",
            {.min = 0, .exclusive_min = true, .unit = "TFLOP/s"});
    v.field("bfloat16_tflops", self.bfloat16_tflops, "rate of products in bfloat16 that is reached",
            {.min = 0, .exclusive_min = true, .unit = "TFLOP/s"});
    v.field("fp8_tflops", self.fp8_tflops,
            "rate of products in FP8 that is reached; 0: there are none",
            {.min = 0, .unit = "TFLOP/s"});
    v.field("memory_bandwidth", self.memory_bandwidth, "of one rank's own memory",
            {.min = 0, .exclusive_min = true, .unit = "GB/s"});
    v.field("intra_node_bandwidth", self.intra_node_bandwidth,
            "of one rank, in one direction, to ranks of its machine",
            {.min = 0, .exclusive_min = true, .unit = "GB/s"});
    v.field("inter_node_bandwidth", self.inter_node_bandwidth,
            "of one rank, in one direction, to other machines",
            {.min = 0, .exclusive_min = true, .unit = "GB/s"});
    v.field("intra_node_latency", self.intra_node_latency, "of one message within a machine",
            {.min = 0, .unit = "us"});
    v.field("inter_node_latency", self.inter_node_latency, "of one message between machines",
            {.min = 0, .unit = "us"});
    v.field("memory", self.memory, "of one rank", {.min = 0, .exclusive_min = true, .unit = "GiB"});
  }

  double flops(c10::ScalarType dtype) const {
    const bool is_half = dtype == c10::ScalarType::BFloat16 || dtype == c10::ScalarType::Half;
    return 1e12 * (is_half ? bfloat16_tflops : float32_tflops);
  }
  double fp8_flops() const { return 1e12 * fp8_tflops; }
  double memory_bytes() const { return memory * double(int64_t{1} << 30); }
};

// "h200x8", "a100x8", "frontier", "cpu".
std::vector<std::string> machine_names();
// A built-in profile, or a YAML file of the fields above. Throws ConfigError with the names there
// are, or the faults of the file.
MachineProfile machine_profile(const std::string& name_or_file);

}  // namespace fovea::plan
