// The data set formats that a recipe can name, listed in one place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/catsdogs.h"
#include "fovea/data/datasets/cifar.h"
#include "fovea/data/datasets/cifar_python.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/file_list.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/hdf5.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/medmnist.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/datasets/tiny_imagenet.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

// A new format: its config and builder beside the others, its config's name here, its builder in
// registry.cc.
using DatasetConfig = OneOf<IdxConfig, CifarConfig, CifarPythonConfig, FolderConfig, FileListConfig,
                            CatsdogsConfig, TinyImagenetConfig, WdsConfig, PackedConfig, NpyConfig,
                            NpzConfig, MedMnistConfig, RawConfig, NiftiConfig, NrrdConfig,
                            MetaImageConfig, BasicCtConfig, DicomConfig, Hdf5Config>;

// Opens the data set; throws DataError naming what is missing or damaged.
std::shared_ptr<const Dataset> build_dataset(const DatasetConfig& config,
                                             EmptyClasses empty_classes = EmptyClasses::kRefused);

// Of validation: labels are those of class_names, what the model has learned, matched by name
// (empty: not known), and a class may have no sample. Classes of voxels are left as they are.
// Throws ConfigError for a class that is not among them.
std::shared_ptr<const Dataset> build_validation_set(const DatasetConfig& config,
                                                    const std::vector<std::string>& class_names);

// The `transforms` of whichever format was chosen.
const std::vector<AnyTransformConfig>& transforms_of(const DatasetConfig& config);

}  // namespace fovea::data

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(data::DatasetConfig::value)>;
extern template struct detail::BoundOneOf<data::DatasetConfig>;

}  // namespace fovea
