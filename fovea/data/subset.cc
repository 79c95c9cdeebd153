#include "fovea/data/subset.h"

#include <algorithm>

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

int64_t SubsetDataset::in_source(int64_t index) const {
  FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
  return first_ + index;
}

void SubsetDataset::read(int64_t index, Sample& sample) const {
  source_->read(in_source(index), sample);
}

void SubsetDataset::read_undecoded(int64_t index, Sample& sample) const {
  source_->read_undecoded(in_source(index), sample);
}

void SubsetDataset::read_in_place(int64_t index, Sample& sample) const {
  source_->read_in_place(in_source(index), sample);
}

VolumeSize SubsetDataset::size_of(int64_t index) const {
  return source_->size_of(in_source(index));
}

std::string SubsetDataset::describe(int64_t index) const {
  return source_->describe(in_source(index));
}

void RelabelledDataset::read(int64_t index, Sample& sample) const {
  source_->read(index, sample);
  relabel(sample);
}

void RelabelledDataset::read_undecoded(int64_t index, Sample& sample) const {
  source_->read_undecoded(index, sample);
  relabel(sample);
}

void RelabelledDataset::read_in_place(int64_t index, Sample& sample) const {
  source_->read_in_place(index, sample);
  relabel(sample);
}

void RelabelledDataset::relabel(Sample& sample) const {
  if (sample.label >= 0) sample.label = labels_.at(static_cast<size_t>(sample.label));
}

void ChannelDataset::read(int64_t index, Sample& sample) const {
  source_->read(index, sample);
  const bool is_volume = form() == SampleForm::kVolume;
  const int64_t channels = is_volume ? sample.volume.channels : sample.image.channels;
  if (channel_ >= channels) {
    fail<DataError>("a sample of {} channels; channel {} is wanted: correct `variables`", channels,
                    channel_);
  }
  if (is_volume) {
    auto& values = sample.volume.values;
    const int64_t voxels = sample.volume.size.voxels();
    std::copy_n(values.begin() + channel_ * voxels, voxels, values.begin());
    values.resize(static_cast<size_t>(voxels));
    sample.volume.channels = 1;
    return;
  }
  auto& pixels = sample.image.pixels;
  const int64_t count = sample.image.height * sample.image.width;
  for (int64_t i = 0; i < count; ++i) pixels[i] = pixels[i * channels + channel_];
  pixels.resize(static_cast<size_t>(count));
  sample.image.channels = 1;
}

}  // namespace fovea::data
