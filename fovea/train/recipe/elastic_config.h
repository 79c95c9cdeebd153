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
    elastic::SolveConfig::visit(v, self);
  }
};

}  // namespace fovea::train
