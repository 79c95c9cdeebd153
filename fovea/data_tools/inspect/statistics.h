// What a data set holds, by reading all of it once: classes, sizes, moments, damaged samples, and a
// checksum of each sample's pixels.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/transforms/volume/volume_view.h"
#include "fovea/data_tools/damaged_samples.h"

namespace fovea::data {

// One sample that could be read.
struct SampleRecord {
  uint64_t hash = 0;  // of the decoded pixels or voxels, their size and their channels
  int64_t index = 0;  // in its set
  int64_t label = -1;
};

// Over all pixels of all samples. The deviation divides by the number of values, as numpy's.
struct ChannelMoments {
  double mean = 0;
  double std = 0;
  double least = 0;
  double most = 0;
};

struct SetStatistics {
  SampleForm form = SampleForm::kImage;
  int64_t samples = 0;                  // of the set
  int64_t inspected = 0;                // read: all of them, or an even subset
  std::vector<DamagedSample> damaged;   // by index; volumes with NaN or infinity are damaged
  std::vector<SampleRecord> records;    // by index; those that could be read
  std::vector<int64_t> class_counts;    // [num_classes] samples with each label
  int64_t unlabelled = 0;               // samples without a label
  std::vector<int64_t> voxel_counts;    // [num_classes] of the masks; empty without masks
  std::vector<int64_t> samples_with;    // [num_classes] samples whose mask holds the class
  int64_t unlabelled_voxels = 0;        // of the masks
  std::map<Extent, int64_t> sizes;      // [D, H, W] (images: D is 1) -> samples
  std::map<int64_t, int64_t> channels;  // channels -> samples
  std::map<std::array<double, 3>, int64_t> spacings;  // of volumes, along D, H, W -> samples
  // [C]: images on a scale of 0 to 1, converted to `channels` of the options as transforms convert
  // them; volumes as stored, those with as many channels as most have.
  std::vector<ChannelMoments> moments;

  bool is_subset() const { return inspected < samples; }
};

struct StatisticsOptions {
  int64_t threads = 0;      // 0: one for each core
  int64_t max_samples = 0;  // 0: all; else an even subset, the same for every run
  int64_t channels = 0;     // of the model; 0: the most that an image has
  std::function<void(int64_t done, int64_t total)> progress = {};
};

// The result does not depend on the number of threads. Samples that throw DataError are named in
// `damaged`.
SetStatistics compute_statistics(const Dataset& dataset, const StatisticsOptions& options = {});

// Sizes by the number of voxels, then by their sides: the first, the one in the middle of all
// samples, the last. `sizes` must not be empty.
struct SizeSummary {
  Extent smallest = {};
  Extent median = {};
  Extent largest = {};
};
SizeSummary summarize_sizes(const std::map<Extent, int64_t>& sizes);

}  // namespace fovea::data
