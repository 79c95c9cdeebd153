// A section of a recipe's `data:` opened: what a Loader takes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fovea/data/config.h"
#include "fovea/data/loader.h"

namespace fovea::data {

struct LoaderSetup {
  std::shared_ptr<const Dataset> dataset;
  std::vector<SampleTransforms> transforms;  // one for each set
  LoaderOptions options;                     // seed and share are open
};

// What a model takes.
struct InputForm {
  int64_t in_chans = 3;  // of the batches of sets that name no variables
  int spatial_dims = 2;  // 2: images [B, C, H, W]; 3: volumes [B, C, D, H, W]
  std::optional<int64_t> packed_patch_size = {};  // see LoaderOptions
  // Of validation: the classes that the model has learned, in label order; empty: not known.
  std::vector<std::string> class_names = {};
};

// What is done to samples of this form. Throws ConfigError: transforms of the other form.
SampleTransforms make_transforms(const std::vector<AnyTransformConfig>& transforms, SampleForm form,
                                 int64_t in_chans);

// Opens `section` (data.train with is_training, else data.val) with tiles and mix as `config` says.
// Validation sections are read in order, to the last sample, unmixed, whatever `config` says; their
// labels are those of input.class_names, matched by name, and a class may have no sample.
// Throws ConfigError, also where data.train and data.val give volumes other axes, or where a class
// is not among input.class_names; DataError.
LoaderSetup open_loader_setup(const DataConfig& config, const DataSectionConfig& section,
                              const InputForm& input, bool is_training);

// Whether batches of the section can be bytes (PixelType), of which a device then makes floats: not
// of volumes, where a step works on floats, and where rows are mixed with another process's.
bool can_be_bytes(const LoaderSetup& setup);

}  // namespace fovea::data
