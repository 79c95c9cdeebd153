// A section of a recipe's `data:` opened: what a Loader takes.
#pragma once

#include <memory>
#include <vector>

#include "fovea/data/config.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/pipeline.h"

namespace fovea::data {

struct OpenedSection {
  std::shared_ptr<const Dataset> dataset;
  std::vector<SampleTransforms> transforms;         // one for each set
  LoaderOptions options;                            // seed and shard are open
  std::vector<std::vector<std::string>> variables;  // [sets] channel names
};

// Opens `section` (data.train with is_training, else data.val) with tiles and mix as `config` says.
// in_chans: channels of the batches of sets that name no variables. Validation sections are read in
// order, to the last sample, whatever `mix` says. Throws ConfigError or DataError.
OpenedSection open_section(const DataConfig& config, const DataSectionConfig& section,
                           int64_t in_chans, bool is_training);

}  // namespace fovea::data
