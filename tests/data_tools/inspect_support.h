// Data sets in memory for the tests of inspection.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/data/support.h"

namespace fovea::data::testing {

// Samples that are handed out as they are; those in `broken` cannot be read.
class MemoryDataset : public Dataset {
 public:
  MemoryDataset(std::vector<Sample> samples, std::vector<std::string> class_names,
                SampleForm form = SampleForm::kImage)
      : samples_(std::move(samples)), class_names_(std::move(class_names)), form_(form) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  SampleForm form() const override { return form_; }
  bool has_masks() const override { return has_masks_; }
  void read(int64_t index, Sample& sample) const override {
    if (broken.contains(index)) fail<DataError>("{}: cut short", describe(index));
    sample = samples_.at(static_cast<size_t>(index));
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return static_cast<int64_t>(class_names_.size()); }
  std::string describe(int64_t index) const override { return fmt::format("memory[{}]", index); }

  std::set<int64_t> broken;
  bool has_masks_ = false;

 private:
  std::vector<Sample> samples_;
  std::vector<std::string> class_names_;
  SampleForm form_;
};

// One colour all over.
inline Sample plain_image(int64_t height, int64_t width, int64_t channels, uint8_t value,
                          int64_t label) {
  Sample sample;
  sample.become<Image>() = {
      height, width, channels,
      std::vector<uint8_t>(static_cast<size_t>(height * width * channels), value)};
  sample.label = label;
  return sample;
}

// Values that are drawn, [C, D, H, W].
inline Sample drawn_volume(int64_t channels, const VolumeSize& size, uint64_t key) {
  Sample sample;
  sample.become<Volume>() = {channels, size, {1, 1, 1}, {}};
  RandomStream random = test_stream(key);
  for (int64_t i = 0; i < channels * size.voxels(); ++i) {
    sample.volume().values.push_back(random.uniform() * 100.0f);
  }
  return sample;
}

}  // namespace fovea::data::testing
