#include "fovea/data/dataset.h"

namespace fovea::data {

VolumeSize Dataset::size_of(int64_t index) const {
  Sample sample;
  read(index, sample);
  if (form() == SampleForm::kVolume) return sample.volume.size;
  return {1, sample.image.height, sample.image.width};
}

std::string named_message(const Dataset& dataset, int64_t index, const DataError& error) {
  const std::string name = dataset.describe(index);
  const std::string message = error.what();
  return message.find(name) != std::string::npos ? message : name + ": " + message;
}

}  // namespace fovea::data
