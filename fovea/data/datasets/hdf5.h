// HDF5 files of images or volumes stacked along a dimension N. An optional part of the build: it is
// there where libhdf5 was found. For files that you trust: HDF5's own library reads them, and it
// has a history of memory faults on files that are made to harm.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/datasets/array_file_config.h"

namespace fovea::data {

struct Hdf5Format {
  static constexpr std::string_view kName = "hdf5";
  static constexpr std::string_view kPathHelp = "the HDF5 file; only one that you trust";
};
using Hdf5Config = ArrayFileConfig<Hdf5Format>;

// Samples are read one by one, under one lock: the library is not made for threads. Throws
// ConfigError where this build has no HDF5; DataError: no such file or array, another type than
// numbers, counts that differ, labels that are no classes.
std::shared_ptr<const Dataset> build_hdf5_dataset(const Hdf5Config& config);

// The arrays that lie in no group, sorted. Throws ConfigError, DataError as above.
std::vector<std::string> hdf5_array_names(const std::string& path);

}  // namespace fovea::data
