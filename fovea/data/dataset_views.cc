#include "fovea/data/dataset_views.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::data {

SubsetDataset::SubsetDataset(std::shared_ptr<const Dataset> source, double start, double end)
    : DatasetView(std::move(source)) {
  const auto size = static_cast<double>(source_->size());
  first_ = static_cast<int64_t>(start * size);
  last_ = static_cast<int64_t>(end * size);
  if (start < 0 || end > 1 || first_ >= last_) {
    fail<ConfigError>(
        "start={} and end={} of {} samples leave {} to {}; expected 0 <= start < end <= 1 with at "
        "least one sample between",
        start, end, source_->size(), first_, last_);
  }
}

std::shared_ptr<const Dataset> SubsetDataset::of_one(std::shared_ptr<const Dataset> source,
                                                     int64_t index) {
  FOVEA_CHECK(index >= 0 && index < source->size(), "index={}; expected 0 to {}", index,
              source->size() - 1);
  return std::shared_ptr<const Dataset>(new SubsetDataset(std::move(source), index));
}

int64_t SubsetDataset::in_source(int64_t index) const {
  FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
  return first_ + index;
}

void SubsetDataset::read(int64_t index, Sample& sample) const {
  source_->read(in_source(index), sample);
}

VolumeSize SubsetDataset::size_of(int64_t index) const {
  return source_->size_of(in_source(index));
}

std::vector<VolumeSize> SubsetDataset::sizes(int64_t first, int64_t count) const {
  if (count == 0) return {};
  in_source(first + count - 1);  // that it is there
  return source_->sizes(in_source(first), count);
}

int64_t SubsetDataset::channels_of(int64_t index) const {
  return source_->channels_of(in_source(index));
}

bool SubsetDataset::read_region(int64_t index, const VolumeRegion& region, Sample& sample) const {
  return source_->read_region(in_source(index), region, sample);
}

std::string SubsetDataset::describe(int64_t index) const {
  return source_->describe(in_source(index));
}

void RelabelledDataset::read(int64_t index, Sample& sample) const {
  source_->read(index, sample);
  relabel(sample);
}

bool RelabelledDataset::read_region(int64_t index, const VolumeRegion& region,
                                    Sample& sample) const {
  if (!source_->read_region(index, region, sample)) return false;
  relabel(sample);
  return true;
}

void RelabelledDataset::relabel(Sample& sample) const {
  if (sample.label >= 0) sample.label = labels_.at(static_cast<size_t>(sample.label));
}

ChannelsDataset::ChannelsDataset(std::shared_ptr<const Dataset> source,
                                 std::vector<int64_t> channels)
    : DatasetView(std::move(source)), channels_(std::move(channels)) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    const auto before = channels_.begin() + static_cast<std::ptrdiff_t>(i);
    if (channels_[i] < 0) {
      fail<ConfigError>("channels: found {}; expected numbers from 0", channels_[i]);
    }
    if (std::find(channels_.begin(), before, channels_[i]) != before) {
      fail<ConfigError>("channels: {} comes twice; expected each channel once", channels_[i]);
    }
  }
}

void ChannelsDataset::read(int64_t index, Sample& sample) const {
  read_decoded(*source_, index, sample);
  choose(index, sample);
}

bool ChannelsDataset::read_region(int64_t index, const VolumeRegion& region, Sample& sample) const {
  if (!source_->read_region(index, region, sample)) return false;
  choose(index, sample);
  return true;
}

void ChannelsDataset::choose(int64_t index, Sample& sample) const {
  const int64_t all = sample.channels();
  for (const auto channel : channels_) {
    if (channel < all) continue;
    fail<DataError>(
        "{}: {} channels; expected at least {}, as `channels`, or a mix's variables, say",
        describe(index), all, channel + 1);
  }
  const auto kept = static_cast<int64_t>(channels_.size());
  if (sample.is<Volume>()) {
    Volume& volume = sample.volume();
    const int64_t voxels = volume.size.voxels();
    std::vector<float> values(static_cast<size_t>(kept * voxels));  // [C, D, H, W]
    for (int64_t c = 0; c < kept; ++c) {
      std::copy_n(volume.values.begin() + channels_[c] * voxels, voxels,
                  values.begin() + c * voxels);
    }
    volume.values = std::move(values);
    volume.channels = kept;
    return;
  }
  Image& image = sample.image();
  const int64_t count = image.height * image.width;
  std::vector<uint8_t> pixels(static_cast<size_t>(kept * count));  // [H, W, C]
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < kept; ++c) {
      pixels[i * kept + c] = image.pixels[i * all + channels_[c]];
    }
  }
  image.pixels = std::move(pixels);
  image.channels = kept;
}

}  // namespace fovea::data
