# libtorch without its own CMake package, which demands CUDA: imported targets over the unpacked PyPI wheel.
#   fovea::torch       headers, libtorch_cpu and libc10: all that a CPU program needs
# FOVEA_TORCH_DIR (cache or environment) is a folder with lib/ and include/: an unpacked wheel's `torch`
# folder, a libtorch, or the `torch` package of an installed Python of the same version.
set(FOVEA_TORCH_VERSION 2.11.0)
if(NOT FOVEA_TORCH_DIR)
  if(DEFINED ENV{FOVEA_TORCH_DIR})
    set(FOVEA_TORCH_DIR "$ENV{FOVEA_TORCH_DIR}")
  else()
    set(FOVEA_TORCH_DIR "${CMAKE_SOURCE_DIR}/.deps/torch")
  endif()
endif()
get_filename_component(FOVEA_TORCH_DIR "${FOVEA_TORCH_DIR}" REALPATH BASE_DIR "${CMAKE_SOURCE_DIR}")

set(version_header "${FOVEA_TORCH_DIR}/include/torch/headeronly/version.h")
if(NOT EXISTS "${version_header}")
  message(FATAL_ERROR "No libtorch in ${FOVEA_TORCH_DIR}: ${version_header} is missing.\n"
    "Expected libtorch ${FOVEA_TORCH_VERSION}. Run ./quickstart, or set FOVEA_TORCH_DIR.")
endif()
file(STRINGS "${version_header}" version_lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" version_digits "${version_lines}")
string(REPLACE ";" "." found_version "${version_digits}")
if(NOT found_version STREQUAL FOVEA_TORCH_VERSION)
  message(FATAL_ERROR "libtorch in ${FOVEA_TORCH_DIR} is version ${found_version}, expected "
    "${FOVEA_TORCH_VERSION}. Set FOVEA_TORCH_DIR to that version or run ./quickstart.")
endif()
# Kept only now that it has been found right: the next configure run is free to look elsewhere.
set(FOVEA_TORCH_DIR "${FOVEA_TORCH_DIR}" CACHE PATH "Folder with libtorch's lib/ and include/" FORCE)

add_library(fovea_torch INTERFACE)
add_library(fovea::torch ALIAS fovea_torch)
# -idirafter: the wheel carries fmt 12, which must not hide Debian's fmt 9 that spdlog is built against.
target_compile_options(fovea_torch INTERFACE
  "SHELL:-idirafter ${FOVEA_TORCH_DIR}/include"
  "SHELL:-idirafter ${FOVEA_TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(fovea_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
# at::parallel_for is a template in a header: compiled without OpenMP it runs in one thread, and says nothing. The
# run-time library is the libgomp.so.1 that lies in the wheel.
target_compile_options(fovea_torch INTERFACE -fopenmp)
target_link_options(fovea_torch INTERFACE -fopenmp)
# libtorch_cpu itself names libcudart and libcupti; they lie beside it (../nvidia) or on the system, so
# undefined symbols of shared libraries are left to the run-time linker.
target_link_options(fovea_torch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${FOVEA_TORCH_DIR}/lib")
target_link_libraries(fovea_torch INTERFACE
  "${FOVEA_TORCH_DIR}/lib/libtorch_cpu.so" "${FOVEA_TORCH_DIR}/lib/libc10.so")
