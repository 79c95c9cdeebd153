#include "fovea/data/dataset.h"

namespace fovea::data {

VolumeSize Dataset::size_of(int64_t index) const {
  Sample sample;
  read(index, sample);
  if (form() == SampleForm::kVolume) return sample.volume.size;
  return {1, sample.image.height, sample.image.width};
}

}  // namespace fovea::data
