// Views of a data set: some of its samples, or some of their channels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::data {

// Passes everything on to another data set but what a child changes.
class DatasetView : public Dataset {
 public:
  explicit DatasetView(std::shared_ptr<const Dataset> source) : source_(std::move(source)) {}

  int64_t size() const override { return source_->size(); }
  SampleForm form() const override { return source_->form(); }
  bool has_masks() const override { return source_->has_masks(); }
  void read(int64_t index, Sample& sample) const override { source_->read(index, sample); }
  const std::vector<std::string>& class_names() const override { return source_->class_names(); }
  int64_t num_classes() const override { return source_->num_classes(); }
  VolumeSize size_of(int64_t index) const override { return source_->size_of(index); }
  std::vector<VolumeSize> sizes(int64_t first, int64_t count) const override {
    return source_->sizes(first, count);
  }
  int64_t channels_of(int64_t index) const override { return source_->channels_of(index); }
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override {
    return source_->read_region(index, region, sample);
  }
  TileWindows tile_windows() const override { return source_->tile_windows(); }
  std::string describe(int64_t index) const override { return source_->describe(index); }

 protected:
  std::shared_ptr<const Dataset> source_;
};

// Samples [floor(start * n), floor(end * n)) of n, start and end in [0, 1]: two sets with one's end
// as the other's start share no sample and leave none out.
class SubsetDataset : public DatasetView {
 public:
  // Throws ConfigError: the shares leave no sample.
  SubsetDataset(std::shared_ptr<const Dataset> source, double start, double end);
  // Sample `index` alone.
  static std::shared_ptr<const Dataset> of_one(std::shared_ptr<const Dataset> source,
                                               int64_t index);

  int64_t size() const override { return last_ - first_; }
  void read(int64_t index, Sample& sample) const override;
  VolumeSize size_of(int64_t index) const override;
  std::vector<VolumeSize> sizes(int64_t first, int64_t count) const override;
  int64_t channels_of(int64_t index) const override;
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override;
  TileWindows tile_windows() const override { return {}; }  // they are of the whole source
  std::string describe(int64_t index) const override;

 private:
  explicit SubsetDataset(std::shared_ptr<const Dataset> source, int64_t first)
      : DatasetView(std::move(source)), first_(first), last_(first + 1) {}
  int64_t in_source(int64_t index) const;

  int64_t first_;
  int64_t last_;
};

// Labels as another list of classes numbers them. Classes of voxels are left as they are.
class RelabelledDataset : public DatasetView {
 public:
  // labels: for each class of `source` the one of class_names that it is.
  RelabelledDataset(std::shared_ptr<const Dataset> source, std::vector<int64_t> labels,
                    std::vector<std::string> class_names)
      : DatasetView(std::move(source)),
        labels_(std::move(labels)),
        class_names_(std::move(class_names)) {}

  void read(int64_t index, Sample& sample) const override;
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override;
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return static_cast<int64_t>(class_names_.size()); }

 private:
  void relabel(Sample& sample) const;

  std::vector<int64_t> labels_;
  std::vector<std::string> class_names_;
};

// Some channels of each sample, in an order of their own.
class ChannelsDataset : public DatasetView {
 public:
  // Throws ConfigError: a channel below 0, or one that comes twice.
  ChannelsDataset(std::shared_ptr<const Dataset> source, std::vector<int64_t> channels);

  // Both throw DataError where the sample has no such channel.
  void read(int64_t index, Sample& sample) const override;
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override;
  int64_t channels_of(int64_t /*index*/) const override {
    return static_cast<int64_t>(channels_.size());
  }

 private:
  void choose(int64_t index, Sample& sample) const;

  std::vector<int64_t> channels_;
};

}  // namespace fovea::data
