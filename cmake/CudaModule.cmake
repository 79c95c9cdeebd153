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
file(GLOB cuda_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/fovea/kernels/cuda/*.cu")
if(cuda_wanted AND cuda_sources)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "sm_90 code, and PTX for later GPUs")
  endif()
  set(CMAKE_CUDA_COMPILER "${FOVEA_NVCC}")
  enable_language(CUDA)
  add_library(fovea_cuda MODULE ${cuda_sources})
  set_target_properties(fovea_cuda PROPERTIES CUDA_STANDARD 20 LINKER_LANGUAGE CXX)
  target_include_directories(fovea_cuda PRIVATE "${CMAKE_SOURCE_DIR}")
  target_compile_options(fovea_cuda PRIVATE
    "SHELL:-isystem ${FOVEA_TORCH_DIR}/include"
    "SHELL:-isystem ${FOVEA_TORCH_DIR}/include/torch/csrc/api/include"
    --expt-relaxed-constexpr)
  target_link_options(fovea_cuda PRIVATE -Wl,--allow-shlib-undefined
                      "-Wl,-rpath,${FOVEA_TORCH_DIR}/lib")
  target_link_libraries(fovea_cuda PRIVATE
    "${FOVEA_TORCH_DIR}/lib/libtorch_cuda.so" "${FOVEA_TORCH_DIR}/lib/libc10_cuda.so"
    "${FOVEA_TORCH_DIR}/lib/libtorch_cpu.so" "${FOVEA_TORCH_DIR}/lib/libc10.so")
elseif(FOVEA_CUDA STREQUAL ON)
  message(FATAL_ERROR "FOVEA_CUDA=ON, but nvcc or ${FOVEA_TORCH_DIR}/lib/libtorch_cuda.so is missing.")
endif()
