# Everything but libtorch comes from Debian 12 packages; `./quickstart` installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(Boost 1.74 REQUIRED)  # headers alone
find_package(JPEG REQUIRED)
find_package(TIFF REQUIRED)
find_package(hwy REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebpdemux)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# fovea_soname(<variable> <name> <folder>...): under which name programs load a shared library: that which its files have
# where it is not for building.
function(fovea_soname variable name)
  find_library(FOVEA_FILE_OF_${name} ${name} HINTS ${ARGN} REQUIRED)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p "${FOVEA_FILE_OF_${name}}" OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "SONAME +([^ \n]+)" soname "${headers}")
  set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# The program loads it with its first request (net/curl_library.h).
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
fovea_soname(FOVEA_CURL_LIBRARY curl ${CURL_LIBRARY_DIRS})
# Optional: `format: hdf5` is built where it is found. The program loads it with the first file (data/datasets/hdf5_library.h).
pkg_check_modules(HDF5 QUIET IMPORTED_TARGET hdf5-serial)
if(HDF5_FOUND)
  fovea_soname(FOVEA_HDF5_LIBRARY hdf5 ${HDF5_LIBRARY_DIRS})
endif()
# Optional: whole-slide images (`format: slides`, predict) are read where it is found.
# The program loads it with the first slide (data/large_image/openslide_library.h).
pkg_check_modules(OPENSLIDE QUIET IMPORTED_TARGET openslide)
if(OPENSLIDE_FOUND)
  fovea_soname(FOVEA_OPENSLIDE_LIBRARY openslide ${OPENSLIDE_LIBRARY_DIRS})
endif()
# Optional: compressed DICOM is decoded where it is found.
include(FoveaGdcm)
fovea_find_gdcm()
if(NOT FOVEA_DATA_ONLY)
  include(Torch)
endif()
