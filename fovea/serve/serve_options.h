// How requests for a model become batches, and what a server may hold.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::serve {

// Words and meanings of Triton's dynamic_batching and ModelQueuePolicy.
struct ServeOptions {
  int64_t max_batch_size = 8;
  std::vector<int64_t> preferred_batch_size = {};
  int64_t max_queue_delay_microseconds = 0;
  int64_t max_queue_size = 128;
  int64_t default_timeout_microseconds = 0;
  int64_t decode_threads = 0;
  int64_t decoded_budget = 1024;
  int64_t memory_budget = 0;
  bool warm_up = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("max_batch_size", self.max_batch_size, "inputs of one pass, and of one request",
            {.min = 1, .max = 32});
    v.field(
        "preferred_batch_size", self.preferred_batch_size,
        "a batch of one of these sizes is computed at once; none: max_batch_size is such a one");
    v.field("max_queue_delay_microseconds", self.max_queue_delay_microseconds,
            "how long a request waits for others to fill its batch; 0: not at all",
            {.min = 0, .max = 60e6, .unit = "microseconds"});
    v.field("max_queue_size", self.max_queue_size,
            "requests of a model that wait; one more is refused with 503; 0: no limit",
            {.min = 0, .max = 1e6, .unit = "requests"});
    v.field("default_timeout_microseconds", self.default_timeout_microseconds,
            "requests that wait longer are refused with 503; a request's own parameter `timeout` "
            "may be shorter; 0: none",
            {.min = 0, .max = 3.6e9, .unit = "microseconds"});
    v.field("decode_threads", self.decode_threads,
            "threads that decode images while batches are computed; 0: one for each core",
            {.min = 0, .max = 1024});
    v.field("decoded_budget", self.decoded_budget,
            "what a model's decoded images and volumes may take while they wait for their pass; "
            "others are decoded as part of it; 0: all are",
            {.min = 0, .max = 1e9, .unit = "MiB"});
    v.field("memory_budget", self.memory_budget,
            "what the weights of all models may take together; a model beyond it is not loaded; 0: "
            "no limit",
            {.min = 0, .max = 1e9, .unit = "MiB"});
    v.field("warm_up", self.warm_up, "pass a blank input through a model before it is ready");
  }

  void validate(ConfigIssues& issues) const {
    for (const int64_t size : preferred_batch_size) {
      if (size >= 1 && size <= max_batch_size) continue;
      issues.add("preferred_batch_size", {"max_batch_size"},
                 fmt::format("{} of batches of at most {}; expected 1 to max_batch_size", size,
                             max_batch_size));
    }
  }
};

}  // namespace fovea::serve
