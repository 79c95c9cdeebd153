// What stands under `data.train` and `data.val`, seen without its format: who holds or reads it
// includes no format. The formats stand in one table, in registry.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/config/any_of.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/labels.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

class DataSection : public ConfigAlternative {
 public:
  static const ConfigAlternatives& alternatives();  // the formats, and a mix of several sets

  // What is done to the samples; of a mix, to those of sets that list no transforms.
  virtual const std::vector<AnyTransformConfig>& transforms() const = 0;
  virtual std::vector<AnyTransformConfig>& transforms() = 0;
  // Of a mix: those of its sets, the first that are known.
  virtual VolumeAxes volume_axes() const = 0;
};

class DatasetFormat : public DataSection {
 public:
  static const ConfigAlternatives& alternatives();

  // Throws DataError naming what is missing or damaged.
  virtual std::shared_ptr<const Dataset> open(EmptyClasses empty_classes) const = 0;
  // Of formats with such a key.
  virtual std::optional<int64_t> max_unpacked_bytes() const = 0;
  virtual int64_t label_offset() const = 0;
};

// A data set of one format.
using DatasetConfig = AnyOf<DatasetFormat>;
// The same, or a mix of several.
using DataSectionConfig = AnyOf<DataSection>;

}  // namespace fovea::data
