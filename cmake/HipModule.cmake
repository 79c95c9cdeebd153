# libfovea_hip.so, the same sources as libfovea_cuda.so for AMD's GPUs: built where libtorch is one for ROCm. What of it was
# ever compiled, and that it never ran, is in docs/model_speed.md, "AMD's GPUs".
set(rocm_places "$ENV{ROCM_PATH}" /opt/rocm)
find_program(FOVEA_HIPCC hipcc HINTS ${rocm_places} PATH_SUFFIXES bin)
find_path(FOVEA_ROCM_INCLUDE hipblaslt/hipblaslt.h HINTS ${rocm_places} PATH_SUFFIXES include)
set(hip_missing "")
if(NOT EXISTS "${FOVEA_TORCH_DIR}/lib/libtorch_hip.so")
  string(APPEND hip_missing " ${FOVEA_TORCH_DIR}/lib/libtorch_hip.so (a libtorch for ROCm)")
endif()
if(NOT FOVEA_HIPCC)
  string(APPEND hip_missing " hipcc")
endif()
if(NOT FOVEA_ROCM_INCLUDE)
  string(APPEND hip_missing " hipblaslt/hipblaslt.h")
endif()
if(FOVEA_HIP STREQUAL ON AND hip_missing)
  message(FATAL_ERROR "FOVEA_HIP=ON, but missing are:${hip_missing}. Set FOVEA_TORCH_DIR, and ROCM_PATH in the environment.")
endif()
if(FOVEA_HIP STREQUAL OFF OR hip_missing)
  return()
endif()

set(FOVEA_HIP_ARCHITECTURES gfx90a gfx942 CACHE STRING "MI200, which Frontier has, and MI300")
string(REPLACE ";" "," hip_architectures "${FOVEA_HIP_ARCHITECTURES}")
# hipcc for the kernels alone: the rest is C++, for which it would be another compiler than that of the program.
set(hip_objects "")
foreach(source ${cuda_sources})
  if(source MATCHES "\\.cu$")
    get_filename_component(name "${source}" NAME_WE)
    set(object "${CMAKE_BINARY_DIR}/hip/${name}.o")
    add_custom_command(OUTPUT "${object}" DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM COMMENT "HIP: ${name}.cu"
      COMMAND "${FOVEA_HIPCC}" -std=c++20 -x hip --offload-arch=${hip_architectures} -O2 -DNDEBUG -fPIC "-I${CMAKE_SOURCE_DIR}"
              -MD -MT "${object}" -MF "${object}.d" -c "${source}" -o "${object}")
    list(APPEND hip_objects "${object}")
  endif()
endforeach()
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/hip")
set(hip_sources ${cuda_sources})
list(FILTER hip_sources INCLUDE REGEX "\\.cc$")
add_library(fovea_cuda MODULE ${hip_sources} ${hip_objects})
# RCCL is a part of ROCm; libtorch names its groups of processes, and the macro that shows them, as NCCL's.
if(EXISTS "${FOVEA_ROCM_INCLUDE}/rccl/rccl.h")
  target_sources(fovea_cuda PRIVATE "${CMAKE_SOURCE_DIR}/fovea/parallel/cuda/nccl.cc")
  target_compile_definitions(fovea_cuda PRIVATE USE_C10D_NCCL)
else()
  message(STATUS "rccl/rccl.h is missing: ranks with a GPU each exchange through host memory and Gloo.")
endif()
set_target_properties(fovea_cuda PROPERTIES OUTPUT_NAME fovea_hip LINKER_LANGUAGE CXX
                      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
set_source_files_properties("${CMAKE_SOURCE_DIR}/fovea/kernels/cuda/module.cc" PROPERTIES COMPILE_DEFINITIONS
  "FOVEA_VERSION=\"${PROJECT_VERSION}\";FOVEA_CUDA_ARCHITECTURES=\"${hip_architectures}\"")
target_compile_definitions(fovea_cuda PRIVATE USE_ROCM=1 __HIP_PLATFORM_AMD__=1 HIPBLAS_V2)
target_include_directories(fovea_cuda PRIVATE "${CMAKE_SOURCE_DIR}")
target_include_directories(fovea_cuda SYSTEM PRIVATE "${FOVEA_ROCM_INCLUDE}")
target_compile_options(fovea_cuda PRIVATE
  "SHELL:-isystem ${FOVEA_TORCH_DIR}/include"
  "SHELL:-isystem ${FOVEA_TORCH_DIR}/include/torch/csrc/api/include")
# ROCm's own libraries are those that libtorch_hip names: two HIP runtimes in a process would not know each other's streams.
target_link_options(fovea_cuda PRIVATE -Wl,--allow-shlib-undefined)
target_link_libraries(fovea_cuda PRIVATE
  "${FOVEA_TORCH_DIR}/lib/libtorch_hip.so" "${FOVEA_TORCH_DIR}/lib/libc10_hip.so"
  "${FOVEA_TORCH_DIR}/lib/libtorch_cpu.so" "${FOVEA_TORCH_DIR}/lib/libc10.so")
if(TARGET test_kernels)
  add_dependencies(test_kernels fovea_cuda)
endif()
