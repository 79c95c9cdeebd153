#include "fovea/data/transforms/volume/rand_gaussian_smooth.h"

#include <array>

#include "fovea/data/transforms/volume/volume_resample.h"

namespace fovea::data {
namespace {

void check_sigma(const char* key, const std::vector<double>& sigma, ConfigIssues& issues) {
  if (sigma.size() == 2 && sigma[0] >= 0 && sigma[0] <= sigma[1]) return;
  issues.add(key, listed(sigma) + "; expected [least, largest], none below 0");
}

}  // namespace

void RandGaussianSmoothConfig::validate(ConfigIssues& issues) const {
  check_sigma("sigma_x", sigma_x, issues);
  check_sigma("sigma_y", sigma_y, issues);
  check_sigma("sigma_z", sigma_z, issues);
}

void RandGaussianSmoothConfig::apply(VolumeItem& item, RandomStream& random,
                                     VolumeScratch& scratch) const {
  if (!random.bernoulli(prob)) return;
  std::array<double, 3> sigma;
  sigma[0] = random.uniform(sigma_x[0], sigma_x[1]);
  sigma[1] = random.uniform(sigma_y[0], sigma_y[1]);
  sigma[2] = random.uniform(sigma_z[0], sigma_z[1]);
  gaussian_smooth(item, sigma, scratch);
}

}  // namespace fovea::data
