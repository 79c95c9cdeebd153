// How a run is spread over processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fovea/config/fields.h"

namespace fovea::parallel {

// The mesh dp_replicate x dp_shard x cp x tp.
struct ParallelConfig {
  std::optional<int64_t> dp_replicate = {};
  int64_t dp_shard = 1;
  int64_t zero = 3;
  std::string shard_outer = "none";
  bool reshard_after_forward = true;
  int64_t min_num_params = 0;
  std::string param_dtype = "float32";
  bool cpu_offload = false;
  int64_t cp = 1;
  std::string cp_method = "all_to_all";
  int64_t tp = 1;
  bool sequence_parallel = false;
  std::string recompute = "none";
  int64_t recompute_every = 2;
  std::string reduce_dtype = "float32";
  int64_t slots = 0;
  bool check_collectives = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("dp_replicate", self.dp_replicate,
            "copies of the model, each with its own part of every batch; auto: as many as there "
            "are processes",
            {.min = 1, .unit = "processes", .null_word = "auto"});
    v.field(
        "dp_shard", self.dp_shard,
        "processes that share out one copy's state (ZeRO, FSDP), each with its own part of every "
        "batch",
        {.min = 1, .unit = "processes"});
    v.field("zero", self.zero,
            "what dp_shard shares out; 1: optimizer and averages; 2: and gradients; 3: and weights",
            {.min = 1, .max = 3});
    v.field("shard_outer", self.shard_outer,
            "what dp_replicate shares out as well; optimizer: each copy has its part of moments, "
            "averages and the weights that are updated, and gathers the rest of the new weights "
            "once a step",
            {.choices = {"none", "optimizer"}});
    v.field("reshard_after_forward", self.reshard_after_forward,
            "with zero 3, free gathered weights after forward and gather them again for backward; "
            "false: keep them until then");
    v.field("min_num_params", self.min_num_params,
            "with zero 3, weights are gathered by parts of the model with at least so many "
            "parameters; 0: by block",
            {.min = 0, .max = 1e12, .unit = "parameters"});
    v.field(
        "param_dtype", self.param_dtype,
        "with zero 3, dtype in which the matrices of blocks are gathered; bfloat16 halves bytes "
        "and memory of what is gathered, needs device.dtype bfloat16, and leaves what the "
        "optimizer updates in float32",
        {.choices = {"float32", "bfloat16"}});
    v.field("cpu_offload", self.cpu_offload,
            "with dp_shard, keep shares of weights, gradients and moments in the memory of the "
            "host, where the optimizer runs then; the GPU has what it computes with");
    v.field("cp", self.cp,
            "processes that share out the tokens of each sequence (context parallel)",
            {.min = 1, .unit = "processes"});
    v.field("cp_method", self.cp_method,
            "how they attend to each other's tokens: all_to_all makes some heads of all tokens (cp "
            "divides the heads, with tp); ring sends keys and values from process to process (any "
            "cp; no attn_drop_rate)",
            {.choices = {"all_to_all", "ring"}});
    v.field("tp", self.tp,
            "processes that share out each layer, by heads and hidden features (tensor parallel); "
            "divides both",
            {.min = 1, .unit = "processes"});
    v.field("sequence_parallel", self.sequence_parallel,
            "what lies between the split layers, norms and drops, works on tp's shares of the "
            "tokens; the same bytes travel, and less is kept for backward");
    v.field("recompute", self.recompute,
            "what runs a second time in backward, so that nothing within it is kept in between: "
            "each block, every recompute_every-th block, each attention, or each MLP",
            {.choices = {"none", "block", "every_n", "attention", "mlp"}});
    v.field("recompute_every", self.recompute_every, "with recompute: every_n, which blocks",
            {.min = 1, .unit = "blocks"});
    v.field("reduce_dtype", self.reduce_dtype,
            "dtype in which gradients travel; bfloat16 halves the bytes, and sums are float32 "
            "either way; float32 with slots",
            {.choices = {"float32", "bfloat16"}});
    v.field("slots", self.slots,
            "parts that each global batch is cut into, whatever processes there are; each process "
            "has some of them, and with dp_shard, cp and tp 1 what is trained has the same bits on "
            "any number of processes (micro-batches stay within a slot; reduce_dtype is float32); "
            "0: none, each process has a part of any size",
            {.min = 0, .max = 65536, .unit = "slots"});
    v.field("check_collectives", self.check_collectives,
            "for debugging: compare what the processes are about to exchange before each exchange, "
            "and name the first one that differs; slow, and nothing overlaps");
  }
  void validate(ConfigIssues& issues) const;

  // Whether gradients are added up slot by slot, in one order.
  bool sums_by_slot() const {
    return slots > 0 && dp_shard * cp * tp == 1 && shard_outer == "none";
  }
};

struct LaunchConfig {
  int64_t processes = 1;
  double timeout = 600;
  bool elastic = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("processes", self.processes,
            "processes to start on this machine; torchrun, srun and mpirun start theirs "
            "themselves: leave 1 with them",
            {.min = 1, .max = 1024, .unit = "processes"});
    v.field("timeout", self.timeout,
            "longest wait for the other processes, at the start and in every exchange",
            {.min = 1, .unit = "s"});
    v.field("elastic", self.elastic,
            "start the processes as workers of an elastic run: others may join, and where one is "
            "lost the rest goes on; needs etcd (Debian package etcd-server)");
  }
};

}  // namespace fovea::parallel
