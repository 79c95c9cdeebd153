// What a loader is told: how samples are ordered, transformed and put into batches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fovea/data/adaptive/config.h"
#include "fovea/data/bad_samples.h"
#include "fovea/data/batch.h"
#include "fovea/data/order/sample_order.h"
#include "fovea/data/transforms/mixup_config.h"

namespace fovea::data {

class Dataset;
class TransformPipeline;
class VolumePipeline;

// What is done to samples. VolumePipeline takes volumes, and images as volumes of depth 1, and
// transforms their masks too.
using SampleTransforms =
    std::variant<std::shared_ptr<const TransformPipeline>, std::shared_ptr<const VolumePipeline>>;

struct PatchingOptions {
  AdaptivePatchingConfig config = {};
  // Draws smoothing and thresholds for each sample, as in training; false: the middle of each.
  bool is_random = true;
};

struct LoaderOptions {
  int64_t global_batch_size = 256;
  BatchSchedule batch_schedule = {};  // where batches change their size
  uint64_t seed = 42;
  bool shuffle = true;
  bool drop_last = false;  // false: the last batch of an epoch is smaller, and exact
  int64_t threads = 2;     // worker threads; 0 prepares batches in next()
  int64_t prefetch = 4;    // batches prepared ahead
  BatchShare share = {};
  PixelType pixel_type = PixelType::kFloat32;
  // Gives every share of a batch as many rows, with rows of weight 0 at the end, so that every
  // batch asks every process for the same work.
  bool pad_shares = false;
  // Sides that images of a batch have: 2, [B, C, H, W]; 3, [B, C, D, H, W]; nothing: as the
  // samples. Volumes of depth 1 are images where 2 are asked for.
  std::optional<int> spatial_dims = {};
  std::optional<MixupConfig> mixup = {};
  std::optional<PatchingOptions> patching = {};  // batches have patches too
  // Batches have images of mixed sizes in place of those of one size, in patches of this side.
  std::optional<int64_t> packed_patch_size = {};
  double num_repeats = 1;  // repeated augmentation; see repeated_augmentation.h
  BadSampleOptions bad_samples = {};
  // [sets] names of their channels; empty, or an empty list for a set: they have none.
  std::vector<std::vector<std::string>> variables = {};
  MixOptions mix = {};  // set_sizes: the parts of a data set of several; empty: it is one
};

}  // namespace fovea::data
