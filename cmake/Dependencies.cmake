# Everything but libtorch comes from Debian 12 packages; `./quickstart` installs them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(JPEG REQUIRED)
find_package(TIFF REQUIRED)
find_package(hwy REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SPNG REQUIRED IMPORTED_TARGET spng)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebpdemux)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
# Optional: `format: hdf5` is built where it is found.
pkg_check_modules(HDF5 QUIET IMPORTED_TARGET hdf5-serial)
# Optional: whole-slide images (`format: slides`, predict) are read where it is found.
pkg_check_modules(OPENSLIDE QUIET IMPORTED_TARGET openslide)
# Optional: compressed DICOM is decoded where it is found.
include(FoveaGdcm)
fovea_find_gdcm()
include(Torch)
