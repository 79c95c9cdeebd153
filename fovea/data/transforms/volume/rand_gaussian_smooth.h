// Smoothing with a Gaussian of drawn width; axes of one voxel are not smoothed.
#pragma once

#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandGaussianSmoothConfig {
  static constexpr std::string_view kName = "rand_gaussian_smooth";
  std::vector<double> sigma_x = {0.25, 1.5};
  std::vector<double> sigma_y = {0.25, 1.5};
  std::vector<double> sigma_z = {0.25, 1.5};
  double prob = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("sigma_x", self.sigma_x, "least and largest sigma along D", {.unit = "voxels"});
    v.field("sigma_y", self.sigma_y, "least and largest sigma along H", {.unit = "voxels"});
    v.field("sigma_z", self.sigma_z, "least and largest sigma along W", {.unit = "voxels"});
    v.field("prob", self.prob, "probability of smoothing", {.min = 0, .max = 1});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return prob > 0; }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
