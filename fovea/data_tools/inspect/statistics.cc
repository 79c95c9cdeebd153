#include "fovea/data_tools/inspect/statistics.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/core/parallel_for.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "fovea/data_tools/inspect/choose_samples.h"
#include "fovea/data_tools/inspect/moments.h"
#include "fovea/files/checksum.h"

namespace fovea::data {
namespace {

// Samples that a thread takes at a time: volumes are large.
constexpr int64_t kImagesInPiece = 64;

template <class T>
uint64_t hash_of(const std::vector<T>& values, int64_t channels, const VolumeSize& size) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                       values.size() * sizeof(T));
  const std::array<uint64_t, 5> parts = {
      checksum(bytes), static_cast<uint64_t>(channels), static_cast<uint64_t>(size.depth),
      static_cast<uint64_t>(size.height), static_cast<uint64_t>(size.width)};
  return checksum(
      std::span(reinterpret_cast<const uint8_t*>(parts.data()), parts.size() * sizeof(uint64_t)));
}

void count_into(std::vector<int64_t>& counts, int64_t place, int64_t count) {
  if (place >= static_cast<int64_t>(counts.size())) counts.resize(static_cast<size_t>(place) + 1);
  counts[static_cast<size_t>(place)] += count;
}

// What a thread finds in one piece. Counts only, so that the order of adding does not matter.
struct PieceCounts {
  std::vector<DamagedSample> damaged;
  std::map<Extent, int64_t> sizes;
  std::map<int64_t, int64_t> channels;
  std::map<std::array<double, 3>, int64_t> spacings;
  std::vector<int64_t> voxel_counts;
  std::vector<int64_t> samples_with;
  int64_t unlabelled_voxels = 0;
  ImageSums sums;

  void add_mask(const LabelMap& mask) {
    std::vector<int64_t> counts;
    for (const int32_t value : mask.classes) {
      if (value < 0) {
        ++unlabelled_voxels;
      } else {
        count_into(counts, value, 1);
      }
    }
    for (size_t c = 0; c < counts.size(); ++c) {
      count_into(voxel_counts, static_cast<int64_t>(c), counts[c]);
      count_into(samples_with, static_cast<int64_t>(c), counts[c] > 0 ? 1 : 0);
    }
  }

  void add_to(SetStatistics& set, ImageSums& all) const {
    set.damaged.insert(set.damaged.end(), damaged.begin(), damaged.end());
    for (const auto& [size, count] : sizes) set.sizes[size] += count;
    for (const auto& [number, count] : channels) set.channels[number] += count;
    for (const auto& [spacing, count] : spacings) set.spacings[spacing] += count;
    for (size_t c = 0; c < voxel_counts.size(); ++c) {
      count_into(set.voxel_counts, static_cast<int64_t>(c), voxel_counts[c]);
      count_into(set.samples_with, static_cast<int64_t>(c), samples_with[c]);
    }
    set.unlabelled_voxels += unlabelled_voxels;
    all.add(sums);
  }
};

class StatisticsReader {
 public:
  StatisticsReader(const Dataset& dataset, const StatisticsOptions& options)
      : dataset_(dataset),
        options_(options),
        is_volume_(dataset.form() == SampleForm::kVolume),
        indices_(even_subset(dataset.size(), options.max_samples)),
        records_(indices_.size()),
        volumes_(is_volume_ ? indices_.size() : 0) {}

  SetStatistics run() {
    set_.form = dataset_.form();
    set_.samples = dataset_.size();
    set_.inspected = static_cast<int64_t>(indices_.size());
    if (dataset_.has_masks()) {
      set_.voxel_counts.resize(static_cast<size_t>(dataset_.num_classes()));
      set_.samples_with.resize(static_cast<size_t>(dataset_.num_classes()));
    }
    const int64_t piece = is_volume_ ? 1 : kImagesInPiece;
    parallel_for((set_.inspected + piece - 1) / piece, options_.threads, [&](int64_t i) {
      read_piece(i * piece, std::min(set_.inspected, (i + 1) * piece));
    });
    finish();
    return std::move(set_);
  }

 private:
  void read_piece(int64_t first, int64_t last) {
    PieceCounts counts;
    Sample sample;
    for (int64_t i = first; i < last; ++i) {
      const int64_t index = indices_[static_cast<size_t>(i)];
      try {
        sample.label = -1;
        sample.mask.classes.clear();
        read_decoded(dataset_, index, sample);
        if (is_volume_) check_finite(sample.volume());
      } catch (const DataError& error) {
        counts.damaged.push_back({index, error.what()});
        continue;
      }
      add_sample(static_cast<size_t>(i), index, sample, counts);
    }
    const std::lock_guard lock(mutex_);
    counts.add_to(set_, sums_);
    done_ += last - first;
    if (options_.progress) options_.progress(done_, set_.inspected);
  }

  void add_sample(size_t place, int64_t index, const Sample& sample, PieceCounts& counts) {
    const VolumeSize size = sample.size();
    const int64_t channels = sample.channels();
    ++counts.sizes[extent_of(size)];
    ++counts.channels[channels];
    uint64_t hash = 0;
    if (is_volume_) {
      ++counts.spacings[sample.volume().spacing];
      volumes_[place] = moments_of(sample.volume());
      hash = hash_of(sample.volume().values, channels, size);
    } else {
      counts.sums.add(ImageView(sample.image()), options_.channels == 1);
      hash = hash_of(sample.image().pixels, channels, size);
    }
    if (dataset_.has_masks()) counts.add_mask(sample.mask);
    records_[place] = SampleRecord{hash, index, sample.label};
  }

  void finish() {
    std::sort(set_.damaged.begin(), set_.damaged.end(),
              [](const auto& a, const auto& b) { return a.index < b.index; });
    set_.class_counts.resize(static_cast<size_t>(std::max<int64_t>(dataset_.num_classes(), 0)));
    for (const auto& record : records_) {
      if (!record) continue;
      set_.records.push_back(*record);
      if (record->label < 0) {
        ++set_.unlabelled;
      } else {
        count_into(set_.class_counts, record->label, 1);
      }
    }
    set_.moments = is_volume_ ? volume_moments() : sums_.moments(options_.channels);
  }

  // Of the volumes with as many channels as most have.
  std::vector<ChannelMoments> volume_moments() const {
    const auto most =
        std::max_element(set_.channels.begin(), set_.channels.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == set_.channels.end()) return {};
    std::vector<FloatMoments> sums(static_cast<size_t>(most->first));
    for (const auto& volume : volumes_) {
      if (volume.size() != sums.size()) continue;
      for (size_t c = 0; c < sums.size(); ++c) sums[c].add(volume[c]);
    }
    std::vector<ChannelMoments> moments;
    for (const FloatMoments& sum : sums) moments.push_back(sum.moments());
    return moments;
  }

  const Dataset& dataset_;
  const StatisticsOptions& options_;
  const bool is_volume_;
  const std::vector<int64_t> indices_;
  std::vector<std::optional<SampleRecord>> records_;  // [inspected], each written by one thread
  std::vector<std::vector<FloatMoments>> volumes_;    // [inspected][C], the same
  std::mutex mutex_;
  SetStatistics set_;
  ImageSums sums_;
  int64_t done_ = 0;
};

}  // namespace

SetStatistics compute_statistics(const Dataset& dataset, const StatisticsOptions& options) {
  return StatisticsReader(dataset, options).run();
}

SizeSummary summarize_sizes(const std::map<Extent, int64_t>& sizes) {
  FOVEA_CHECK(!sizes.empty(), "no sizes to summarise");
  std::vector<std::pair<Extent, int64_t>> ordered(sizes.begin(), sizes.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return voxels_of(a.first) < voxels_of(b.first);
  });
  int64_t total = 0;
  for (const auto& [size, count] : ordered) total += count;
  SizeSummary summary{ordered.front().first, {}, ordered.back().first};
  int64_t before = 0;
  for (const auto& [size, count] : ordered) {
    before += count;
    if (2 * before < total) continue;
    summary.median = size;
    break;
  }
  return summary;
}

}  // namespace fovea::data
