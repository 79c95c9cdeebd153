// Files that a trained model is applied to: no labels, no folder layout, named one by one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/config.h"
#include "fovea/data/dataset.h"
#include "fovea/data/volume/stored_volume.h"

namespace fovea::data {

// One input of a model.
struct ModelInput {
  std::string path;  // "scans/sub/a.nii.gz"; the files of several modalities divided by ;
  std::string stem;  // what is written for it is named after: "sub/a", or "a" where it was named
};

// The inputs themselves, and in place of folders the files below them: images, or where
// wants_volumes NIfTI, NRRD and MetaImage files, and without those folders of DICOM slices. In
// place of lists (.csv, .jsonl) the files that they name. Throws DataError: a folder without any, a
// damaged list.
std::vector<ModelInput> find_input_files(const std::vector<std::string>& inputs,
                                         bool wants_volumes);

// A sample for each input, images (JPEG, PNG) or volumes (NIfTI, NRRD, MetaImage, or a folder of
// DICOM slices; the files of several modalities divided by ;). like: the data set that the model
// was trained on, whose orientation and scaling of volumes are taken over. Throws ConfigError:
// images and volumes together, an ending that is neither, a volume that cannot be brought to the
// axes of `like`; DataError, here or later: a file that cannot be read.
std::shared_ptr<const Dataset> open_input_files(const std::vector<std::string>& inputs,
                                                const std::optional<DataSectionConfig>& like = {});

// One volume file or folder of slices: as it is stored, and as a model that was trained on `like`
// is given it. Both walk over the same voxels. Throws as open_input_files.
struct InputVolume {
  StoredVolume stored;
  StoredVolume given;
};
InputVolume open_input_volume(const std::string& path,
                              const std::optional<DataSectionConfig>& like = {});

// `mask`, which lies on volume.given, on the voxels of volume.stored.
LabelMap in_stored_order(const LabelMap& mask, const InputVolume& volume);
// The same of each channel of `values`.
Volume in_stored_order(const Volume& values, const InputVolume& volume);

// The number in masks that is class 0, as the set that the model was trained on has it.
int64_t label_offset_of(const std::optional<DataSectionConfig>& like);

}  // namespace fovea::data
