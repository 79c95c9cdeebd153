// HDF5, loaded when the first file of it is opened: it stands on libcurl, and that on some thirty
// libraries, which every start of a program that is linked with it would wait for.
#pragma once

#include <hdf5.h>

namespace fovea::data {

// Its functions, under their names without "H5". Macros of hdf5.h that call the library, such as
// H5T_NATIVE_FLOAT and H5F_ACC_RDONLY, need it linked: not to be used.
struct Hdf5Library {
  decltype(&H5open) open;
  decltype(&H5Dclose) Dclose;
  decltype(&H5Dget_create_plist) Dget_create_plist;
  decltype(&H5Dget_space) Dget_space;
  decltype(&H5Dget_storage_size) Dget_storage_size;
  decltype(&H5Dget_type) Dget_type;
  decltype(&H5Dopen2) Dopen2;
  decltype(&H5Dread) Dread;
  decltype(&H5Eset_auto2) Eset_auto2;
  decltype(&H5Fclose) Fclose;
  decltype(&H5Fopen) Fopen;
  decltype(&H5Gget_info) Gget_info;
  decltype(&H5Lget_name_by_idx) Lget_name_by_idx;
  decltype(&H5Pclose) Pclose;
  decltype(&H5Pget_chunk) Pget_chunk;
  decltype(&H5Pget_layout) Pget_layout;
  decltype(&H5Sclose) Sclose;
  decltype(&H5Screate_simple) Screate_simple;
  decltype(&H5Sget_simple_extent_dims) Sget_simple_extent_dims;
  decltype(&H5Sget_simple_extent_ndims) Sget_simple_extent_ndims;
  decltype(&H5Sselect_hyperslab) Sselect_hyperslab;
  decltype(&H5Tclose) Tclose;
  decltype(&H5Tget_class) Tget_class;
  decltype(&H5Tget_sign) Tget_sign;
  decltype(&H5Tget_size) Tget_size;
  // This machine's own types of numbers.
  const hid_t* NATIVE_UINT8;
  const hid_t* NATIVE_INT8;
  const hid_t* NATIVE_UINT16;
  const hid_t* NATIVE_INT16;
  const hid_t* NATIVE_UINT32;
  const hid_t* NATIVE_INT32;
  const hid_t* NATIVE_UINT64;
  const hid_t* NATIVE_INT64;
  const hid_t* NATIVE_FLOAT;
  const hid_t* NATIVE_DOUBLE;
};

// Thread-safe. Throws ConfigError: this machine does not have the library that the build had.
const Hdf5Library& hdf5_library();

}  // namespace fovea::data
