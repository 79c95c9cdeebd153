#ifdef FOVEA_HDF5_LIBRARY
#include "fovea/data/datasets/hdf5_library.h"

#include "fovea/core/error.h"
#include "fovea/core/loaded_library.h"

namespace fovea::data {
namespace {

constexpr const char* kExpected = "the HDF5 that this program was built with";

Hdf5Library load() {
  const LoadedLibrary library(FOVEA_HDF5_LIBRARY);
  if (!library.why_not().empty()) {
    fail<ConfigError>(
        "HDF5 files are read with {}, which cannot be loaded ({}); install HDF5 (Debian: "
        "libhdf5-103-1), or write the arrays as npy, npz or zarr",
        FOVEA_HDF5_LIBRARY, library.why_not());
  }
  Hdf5Library found{};
  library.require("H5open", kExpected, found.open);
  library.require("H5Dclose", kExpected, found.Dclose);
  library.require("H5Dget_create_plist", kExpected, found.Dget_create_plist);
  library.require("H5Dget_space", kExpected, found.Dget_space);
  library.require("H5Dget_storage_size", kExpected, found.Dget_storage_size);
  library.require("H5Dget_type", kExpected, found.Dget_type);
  library.require("H5Dopen2", kExpected, found.Dopen2);
  library.require("H5Dread", kExpected, found.Dread);
  library.require("H5Eset_auto2", kExpected, found.Eset_auto2);
  library.require("H5Fclose", kExpected, found.Fclose);
  library.require("H5Fopen", kExpected, found.Fopen);
  library.require("H5Gget_info", kExpected, found.Gget_info);
  library.require("H5Lget_name_by_idx", kExpected, found.Lget_name_by_idx);
  library.require("H5Pclose", kExpected, found.Pclose);
  library.require("H5Pget_chunk", kExpected, found.Pget_chunk);
  library.require("H5Pget_layout", kExpected, found.Pget_layout);
  library.require("H5Sclose", kExpected, found.Sclose);
  library.require("H5Screate_simple", kExpected, found.Screate_simple);
  library.require("H5Sget_simple_extent_dims", kExpected, found.Sget_simple_extent_dims);
  library.require("H5Sget_simple_extent_ndims", kExpected, found.Sget_simple_extent_ndims);
  library.require("H5Sselect_hyperslab", kExpected, found.Sselect_hyperslab);
  library.require("H5Tclose", kExpected, found.Tclose);
  library.require("H5Tget_class", kExpected, found.Tget_class);
  library.require("H5Tget_sign", kExpected, found.Tget_sign);
  library.require("H5Tget_size", kExpected, found.Tget_size);
  library.require("H5T_NATIVE_UINT8_g", kExpected, found.NATIVE_UINT8);
  library.require("H5T_NATIVE_INT8_g", kExpected, found.NATIVE_INT8);
  library.require("H5T_NATIVE_UINT16_g", kExpected, found.NATIVE_UINT16);
  library.require("H5T_NATIVE_INT16_g", kExpected, found.NATIVE_INT16);
  library.require("H5T_NATIVE_UINT32_g", kExpected, found.NATIVE_UINT32);
  library.require("H5T_NATIVE_INT32_g", kExpected, found.NATIVE_INT32);
  library.require("H5T_NATIVE_UINT64_g", kExpected, found.NATIVE_UINT64);
  library.require("H5T_NATIVE_INT64_g", kExpected, found.NATIVE_INT64);
  library.require("H5T_NATIVE_FLOAT_g", kExpected, found.NATIVE_FLOAT);
  library.require("H5T_NATIVE_DOUBLE_g", kExpected, found.NATIVE_DOUBLE);
  if (found.open() < 0) fail<ConfigError>("{} does not start", FOVEA_HDF5_LIBRARY);
  return found;
}

}  // namespace

const Hdf5Library& hdf5_library() {
  static const Hdf5Library library = load();
  return library;
}

}  // namespace fovea::data
#endif
