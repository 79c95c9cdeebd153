# Which libtorch the build uses. FOVEA_TORCH_DIR (cache or environment) is a folder with lib/ and include/: an unpacked
# wheel's `torch` folder, a libtorch, or the `torch` package of an installed Python.
include(FoveaTorch)
set(fetched_torch "${CMAKE_SOURCE_DIR}/.deps/torch")  # where ./quickstart puts it
if(NOT FOVEA_TORCH_DIR)
  if(DEFINED ENV{FOVEA_TORCH_DIR})
    set(FOVEA_TORCH_DIR "$ENV{FOVEA_TORCH_DIR}")
  else()
    set(FOVEA_TORCH_DIR "${fetched_torch}")
  endif()
endif()
get_filename_component(FOVEA_TORCH_DIR "${FOVEA_TORCH_DIR}" REALPATH BASE_DIR "${CMAKE_SOURCE_DIR}")
fovea_check_torch_range("${FOVEA_TORCH_DIR}")
# Kept only now that it has been found right: the next configure run is free to look elsewhere.
set(FOVEA_TORCH_DIR "${FOVEA_TORCH_DIR}" CACHE PATH "Folder with libtorch's lib/ and include/" FORCE)
fovea_torch_version("${FOVEA_TORCH_DIR}" FOVEA_TORCH_VERSION)
fovea_add_torch("${FOVEA_TORCH_DIR}")
# What its headers say of a fault names the file there, not where this machine has it (with ccache it did not either).
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} -fmacro-prefix-map=${FOVEA_TORCH_DIR}/=torch/")
