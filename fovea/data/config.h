// The `data:` section of a recipe.
#pragma once

#include <cstdint>
#include <optional>

#include "fovea/core/config_fields.h"
#include "fovea/data/datasets/registry.h"

namespace fovea::data {

struct DataConfig {
  std::optional<DatasetConfig> train = {};
  std::optional<DatasetConfig> val = {};
  int64_t global_batch_size = 256;
  int64_t threads = 2;
  int64_t prefetch = 4;
  bool drop_last = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("train", self.train, "data set that is trained on");
    v.field("val", self.val, "data set that is evaluated on, in order and to the last sample");
    v.field("global_batch_size", self.global_batch_size,
            "samples of one optimizer step, over all processes", {.min = 1, .unit = "samples"});
    v.field("threads", self.threads,
            "threads that read and transform images; 0: the training thread does",
            {.min = 0, .max = 1024});
    v.field("prefetch", self.prefetch, "batches prepared ahead",
            {.min = 1, .max = 1024, .unit = "batches"});
    v.field("drop_last", self.drop_last, "leave out an epoch's last batch where it is not full");
  }
};

}  // namespace fovea::data
