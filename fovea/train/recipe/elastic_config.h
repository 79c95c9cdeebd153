// A run whose workers come and go, and whose batch may follow its gradients.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/config/fields.h"
#include "fovea/elastic/solve/solve_config.h"

namespace fovea::train {

// The base: JABAS's keys, which `fovea elastic solve` reads here too.
struct ElasticConfig : elastic::SolveConfig {
  int64_t min_workers = 1;
  int64_t max_workers = 0;
  std::string dp_shard = "fixed";
  double patience = 600;
  double hang_after = 300;
  int64_t lease = 2;
  bool log_samples = false;
  std::string shares = "speed";
  double shares_gain = 0.1;
  int64_t shares_after = 50;
  std::string objective = "time";
  std::string propose = "show";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("min_workers", self.min_workers,
            "with fewer of them the run waits, and keeps its state in those that are there",
            {.min = 1, .unit = "workers"});
    v.field("max_workers", self.max_workers,
            "more of them wait for a place; `fovea elastic scale` changes it; 0: all take part",
            {.min = 0, .unit = "workers"});
    v.field(
        "dp_shard", self.dp_shard,
        "how many processes share out one copy's state as workers come and go; fixed: "
        "parallel.dp_shard of them, so that members come in multiples of it; auto: all members, "
        "where parallel.dp_shard is above 1",
        {.choices = {"fixed", "auto"}});
    v.field("patience", self.patience,
            "longest time without etcd, in which steps go on and nothing is published, before a "
            "worker ends (exit code 7)",
            {.min = 1, .unit = "s"});
    v.field(
        "hang_after", self.hang_after,
        "longest time that a worker computes without a sign of life, which it gives between two "
        "steps and between two batches of an evaluation, before it is left out as one that "
        "hangs; waiting for others does not count",
        {.min = 1, .unit = "s"});
    v.field("lease", self.lease,
            "how long etcd takes a worker that is not heard of for alive; it grants no less than 2",
            {.min = 2, .max = 600, .unit = "s"});
    v.field("log_samples", self.log_samples,
            "write which samples each worker computed in each step, for `fovea elastic audit`");
    v.field("shares", self.shares,
            "parts of a batch; speed: by how long members were measured to take for theirs, whole "
            "slots with parallel.slots, equal ones under ZeRO 2 and 3; equal: as equal as can be",
            {.choices = {"speed", "equal"}});
    v.field("shares_gain", self.shares_gain,
            "part of a step's time that other shares take off it, from which on they are changed",
            {.min = 0.01, .max = 0.9});
    v.field("shares_after", self.shares_after,
            "steps over which a gain has to hold before shares change; each change doubles it "
            "until the members are others",
            {.min = 8, .unit = "steps"});
    v.field(
        "objective", self.objective,
        "what proposed devices make least: time, cost, or the power of the price from 0 to 1 by "
        "which the time of a step is weighed");
    v.field("propose", self.propose,
            "with profile_dir: show which workers should compute in `fovea elastic status`, or "
            "apply it: others wait",
            {.choices = {"off", "show", "apply"}});
    elastic::SolveConfig::visit(v, self);
  }
};

}  // namespace fovea::train
