# libfovea_cuda.so, the loadable GPU back end: compiled wherever nvcc is found, run where a driver is there.
find_program(FOVEA_NVCC nvcc HINTS /usr/local/cuda/bin)
set(cuda_wanted "${FOVEA_CUDA}")
if(cuda_wanted STREQUAL AUTO)
  if(FOVEA_NVCC AND EXISTS "${FOVEA_TORCH_DIR}/lib/libtorch_cuda.so")
    set(cuda_wanted ON)
  else()
    set(cuda_wanted OFF)
  endif()
endif()
file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/fovea/kernels/cuda/*.cu"
     "${CMAKE_SOURCE_DIR}/fovea/kernels/cuda/*.cc")
if(cuda_wanted AND cuda_sources)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "80-real;89-real;90-real;100" CACHE STRING
        "A100, L40 and RTX 40, H100 and H200, B200, and PTX for later GPUs")
  endif()
  # As the module tells it: a list of CMake's would be two definitions.
  string(REPLACE ";" "," cuda_architectures "${CMAKE_CUDA_ARCHITECTURES}")
  set(CMAKE_CUDA_COMPILER "${FOVEA_NVCC}")
  enable_language(CUDA)
  # CMake 3.25 does not know the flag for this nvcc.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  add_library(fovea_cuda MODULE ${cuda_sources})
  # NCCL's header comes with CUDA toolkits that have NCCL, and with the PyPI wheel nvidia-nccl-cu13; the library itself is
  # the one that libtorch_cuda names.
  find_path(FOVEA_NCCL_INCLUDE nccl.h
            HINTS "${FOVEA_TORCH_DIR}/../nvidia/nccl/include" /usr/local/cuda/include)
  if(FOVEA_NCCL_INCLUDE)
    target_sources(fovea_cuda PRIVATE "${CMAKE_SOURCE_DIR}/fovea/parallel/cuda/nccl.cc")
    set_source_files_properties("${CMAKE_SOURCE_DIR}/fovea/parallel/cuda/nccl.cc" PROPERTIES
                                COMPILE_DEFINITIONS USE_C10D_NCCL INCLUDE_DIRECTORIES
                                "${FOVEA_NCCL_INCLUDE}")
  else()
    message(STATUS "nccl.h is missing: ranks with a GPU each exchange through host memory and Gloo.")
  endif()
  # The run-time library is libtorch_cuda's own, so shared; the module lies at the top of the build folder, where
  # load_cuda_backend looks.
  set_target_properties(fovea_cuda PROPERTIES CUDA_STANDARD 20 LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY Shared
                        LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  set_source_files_properties("${CMAKE_SOURCE_DIR}/fovea/kernels/cuda/module.cc" PROPERTIES COMPILE_DEFINITIONS
    "FOVEA_VERSION=\"${PROJECT_VERSION}\";FOVEA_CUDA_ARCHITECTURES=\"${cuda_architectures}\"")
  target_include_directories(fovea_cuda PRIVATE "${CMAKE_SOURCE_DIR}")
  target_include_directories(fovea_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_compile_options(fovea_cuda PRIVATE
    "SHELL:-isystem ${FOVEA_TORCH_DIR}/include"
    "SHELL:-isystem ${FOVEA_TORCH_DIR}/include/torch/csrc/api/include"
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  target_link_options(fovea_cuda PRIVATE -Wl,--allow-shlib-undefined)
  target_link_libraries(fovea_cuda PRIVATE
    "${FOVEA_TORCH_DIR}/lib/libtorch_cuda.so" "${FOVEA_TORCH_DIR}/lib/libc10_cuda.so"
    "${FOVEA_TORCH_DIR}/lib/libtorch_cpu.so" "${FOVEA_TORCH_DIR}/lib/libc10.so")
  if(TARGET test_kernels)
    add_dependencies(test_kernels fovea_cuda)
  endif()
elseif(FOVEA_CUDA STREQUAL ON)
  message(FATAL_ERROR "FOVEA_CUDA=ON, but nvcc or ${FOVEA_TORCH_DIR}/lib/libtorch_cuda.so is missing.")
endif()
