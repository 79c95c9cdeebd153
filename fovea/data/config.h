// The `data:` section of a recipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"
#include "fovea/data/adaptive/config.h"
#include "fovea/data/bad_samples.h"
#include "fovea/data/datasets/format.h"
#include "fovea/data/tiles/tiling.h"
#include "fovea/data/transforms/mixup_config.h"

namespace fovea::data {

struct DataConfig {
  std::optional<DataSectionConfig> train = {};
  std::optional<DataSectionConfig> val = {};
  int64_t global_batch_size = 256;
  std::string batch_schedule;
  int64_t threads = 2;
  int64_t prefetch = 4;
  bool drop_last = true;
  std::optional<TilingConfig> tiling = {};
  std::optional<AdaptivePatchingConfig> adaptive_patching = {};
  std::string mix = "exact";
  MixupConfig mixup = {};
  double num_repeats = 1;
  BadSamplesConfig bad_samples = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("train", self.train, "data set that is trained on");
    v.field("val", self.val, "data set that is evaluated on, in order and to the last sample");
    v.field("global_batch_size", self.global_batch_size,
            "samples of one optimizer step, over all processes", {.min = 1, .unit = "samples"});
    v.field("batch_schedule", self.batch_schedule,
            "file with a list of {position, size}: training batches have `size` samples from "
            "`position` on, the samples before it over all epochs; before the first one, and in "
            "what is counted in steps, global_batch_size holds; empty: always");
    v.field("threads", self.threads,
            "threads that read and transform images; 0: the training thread does",
            {.min = 0, .max = 1024});
    v.field("prefetch", self.prefetch, "batches prepared ahead",
            {.min = 1, .max = 1024, .unit = "batches"});
    v.field("drop_last", self.drop_last,
            "leave out an epoch's last batch where it is not full; not for a mix with mix: exact");
    v.field("tiling", self.tiling, "cut images and volumes into tiles, before the transforms");
    v.field("adaptive_patching", self.adaptive_patching,
            "cut each sample, after the transforms, into patches that are small where the detail "
            "is, for a model that takes them; evaluation draws nothing");
    v.field(
        "mix", self.mix,
        "of a training set of format mix: exact, every sample once an epoch; cycle_to_largest, "
        "as many batches of each set as the largest has; weights, batches by the sets' weights; "
        "rank_groups, UCF-VIT's, where each process reads one set, so that the samples depend "
        "on the number of processes",
        {.choices = {"exact", "cycle_to_largest", "weights", "rank_groups"}});
    v.field("mixup", self.mixup, "mix the images of a training batch with each other");
    v.field("num_repeats", self.num_repeats,
            "repeated augmentation: each training image so many times in a row, augmented anew; an "
            "epoch has as many samples as before",
            {.min = 1});
    v.field("bad_samples", self.bad_samples, "what happens where a sample cannot be read");
  }
  void validate(ConfigIssues& issues) const;
};

}  // namespace fovea::data

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::BoundSection<data::DataConfig>;

}  // namespace fovea
