// A transform of volumes as the pipeline sees it: what it does to a size, and to a sample. Pure
// functions of the sample and the random stream. Names, meanings and defaults are MONAI's
// (spatial_resize is its Resize: `resize` is that of images). Axes are D, H, W: MONAI's first,
// second and third spatial axis. Geometry moves values and mask alike; intensity changes values
// only.
#pragma once

#include "fovea/config/fields.h"
#include "fovea/core/philox.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/volume/volume_config_checks.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

class VolumeTransform : public Transform {
 public:
  static const ConfigAlternatives& alternatives();

  // Sizes that can come out of volumes of these sizes. Where they depend on the sample it knows
  // little.
  virtual ExtentRange output_range(const ExtentRange& in) const = 0;
  // Changes `item`, whose windows then look at what they looked at before or at a buffer of
  // `scratch`. Throws DataError.
  virtual void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const = 0;
};

// A config with draws() and apply(). Where the size changes it has output_range().
template <class Config>
class VolumeTransformOf final
    : public ConfigHolder<VolumeTransform, Config, VolumeTransformOf<Config>> {
 public:
  bool draws() const override { return this->config.draws(); }
  ExtentRange output_range(const ExtentRange& in) const override {
    // By name alone: with another signature it does not compile.
    if constexpr (requires { &Config::output_range; }) return this->config.output_range(in);
    return in;
  }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const override {
    this->config.apply(item, random, scratch);
  }
};

}  // namespace fovea::data
