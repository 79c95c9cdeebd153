// The transform rand_gaussian_noise.
#pragma once

#include "fovea/data/transforms/standard_normals.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandGaussianNoiseConfig {
  static constexpr std::string_view kName = "rand_gaussian_noise";
  double prob = 0.1;
  double mean = 0;
  double std = 0.1;
  bool sample_std = true;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of noise", {.min = 0, .max = 1});
    v.field("mean", self.mean, "mean of the noise");
    v.field("std", self.std, "standard deviation of the noise", {.min = 0});
    v.field("sample_std", self.sample_std, "draw the standard deviation from [0, std)");
  }
  bool draws() const { return prob > 0; }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const {
    if (!random.bernoulli(prob)) return;
    const double drawn = sample_std ? random.uniform(0.0, std) : std;
    const uint32_t low = random.next_word();
    const PhiloxKey key = {low, random.next_word()};
    // Voxel i, in order [C, D, H, W], takes the i-th of the key's standard_normals.
    const auto count = static_cast<size_t>(item.values.channels * voxels_of(item.values.size));
    add_standard_normals(key, static_cast<float>(mean), static_cast<float>(drawn),
                         {own_values(item, scratch), count});
  }
};

}  // namespace fovea::data
