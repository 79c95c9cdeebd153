#ifdef FOVEA_HDF5
#include "fovea/data/datasets/hdf5_library.h"

#include "fovea/core/error.h"
#include "fovea/core/loaded_library.h"

namespace fovea::data {
namespace {

// FOVEA_HDF5_LIBRARY: under which name it is loaded. A Python package that carries it is linked
// with it instead: there it has another name.
#ifdef FOVEA_HDF5_LIBRARY
constexpr const char* kExpected = "the HDF5 that this program was built with";
#define FOVEA_FIND(function, name) library.require("H5" #name, kExpected, found.function)
#else
#define FOVEA_FIND(function, name) found.function = &H5##name
#endif

Hdf5Library load() {
#ifdef FOVEA_HDF5_LIBRARY
  const LoadedLibrary library(FOVEA_HDF5_LIBRARY);
  library.check_there(
      "HDF5 files are read",
      "install HDF5 (Debian: libhdf5-103-1), or write the arrays as npy, npz or zarr");
#endif
  Hdf5Library found{};
  FOVEA_FIND(open, open);
  FOVEA_FIND(Dclose, Dclose);
  FOVEA_FIND(Dget_create_plist, Dget_create_plist);
  FOVEA_FIND(Dget_space, Dget_space);
  FOVEA_FIND(Dget_storage_size, Dget_storage_size);
  FOVEA_FIND(Dget_type, Dget_type);
  FOVEA_FIND(Dopen2, Dopen2);
  FOVEA_FIND(Dread, Dread);
  FOVEA_FIND(Eset_auto2, Eset_auto2);
  FOVEA_FIND(Fclose, Fclose);
  FOVEA_FIND(Fopen, Fopen);
  FOVEA_FIND(Gget_info, Gget_info);
  FOVEA_FIND(Lget_name_by_idx, Lget_name_by_idx);
  FOVEA_FIND(Pclose, Pclose);
  FOVEA_FIND(Pget_chunk, Pget_chunk);
  FOVEA_FIND(Pget_layout, Pget_layout);
  FOVEA_FIND(Sclose, Sclose);
  FOVEA_FIND(Screate_simple, Screate_simple);
  FOVEA_FIND(Sget_simple_extent_dims, Sget_simple_extent_dims);
  FOVEA_FIND(Sget_simple_extent_ndims, Sget_simple_extent_ndims);
  FOVEA_FIND(Sselect_hyperslab, Sselect_hyperslab);
  FOVEA_FIND(Tclose, Tclose);
  FOVEA_FIND(Tget_class, Tget_class);
  FOVEA_FIND(Tget_sign, Tget_sign);
  FOVEA_FIND(Tget_size, Tget_size);
  FOVEA_FIND(NATIVE_UINT8, T_NATIVE_UINT8_g);
  FOVEA_FIND(NATIVE_INT8, T_NATIVE_INT8_g);
  FOVEA_FIND(NATIVE_UINT16, T_NATIVE_UINT16_g);
  FOVEA_FIND(NATIVE_INT16, T_NATIVE_INT16_g);
  FOVEA_FIND(NATIVE_UINT32, T_NATIVE_UINT32_g);
  FOVEA_FIND(NATIVE_INT32, T_NATIVE_INT32_g);
  FOVEA_FIND(NATIVE_UINT64, T_NATIVE_UINT64_g);
  FOVEA_FIND(NATIVE_INT64, T_NATIVE_INT64_g);
  FOVEA_FIND(NATIVE_FLOAT, T_NATIVE_FLOAT_g);
  FOVEA_FIND(NATIVE_DOUBLE, T_NATIVE_DOUBLE_g);
  FOVEA_CHECK(found.open() >= 0, "HDF5 does not start");
  return found;
}
#undef FOVEA_FIND

}  // namespace

const Hdf5Library& hdf5_library() {
  static const Hdf5Library library = load();
  return library;
}

}  // namespace fovea::data
#endif
