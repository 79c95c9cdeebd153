# libtorch without its own CMake package, which demands CUDA: what builds Fovea, and, installed, what builds against it.
set(FOVEA_TORCH_OLDEST 2.11.0)  # what came before lacks headers that are used
set(FOVEA_TORCH_NEWEST 2.15.0)  # the newest that was tried; docs/dependencies.md says how, and what differs

# fovea_torch_version(<folder> <variable>): "2.11.0"; empty where the folder holds no libtorch.
function(fovea_torch_version folder variable)
  set(${variable} "" PARENT_SCOPE)
  set(header "${folder}/include/torch/headeronly/version.h")
  if(EXISTS "${header}")
    file(STRINGS "${header}" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
    string(REGEX REPLACE "[^0-9;]" "" digits "${lines}")
    string(REPLACE ";" "." version "${digits}")
    set(${variable} "${version}" PARENT_SCOPE)
  endif()
endfunction()

# fovea_check_torch_range(<folder>): says what it found; ends where it is nothing, or too old to compile.
function(fovea_check_torch_range folder)
  fovea_torch_version("${folder}" found)
  if(found STREQUAL "")
    message(FATAL_ERROR "No libtorch in ${folder}: include/torch/headeronly/version.h is missing there.\n"
      "Expected libtorch ${FOVEA_TORCH_OLDEST} to ${FOVEA_TORCH_NEWEST}. Run ./quickstart, or set FOVEA_TORCH_DIR.")
  elseif(found VERSION_LESS FOVEA_TORCH_OLDEST)
    message(FATAL_ERROR "libtorch in ${folder} is version ${found}, older than Fovea builds with; expected "
      "${FOVEA_TORCH_OLDEST} to ${FOVEA_TORCH_NEWEST}. Set FOVEA_TORCH_DIR to such a version or run ./quickstart.")
  elseif(found VERSION_GREATER FOVEA_TORCH_NEWEST)
    message(WARNING "libtorch in ${folder} is version ${found}, newer than Fovea was tried with; expected "
      "${FOVEA_TORCH_OLDEST} to ${FOVEA_TORCH_NEWEST}. Run all tests (ctest) before you rely on what it computes, or set "
      "FOVEA_TORCH_DIR to such a version.")
  else()
    message(STATUS "libtorch ${found} in ${folder} (Fovea builds with ${FOVEA_TORCH_OLDEST} to ${FOVEA_TORCH_NEWEST})")
  endif()
endfunction()

# fovea_add_torch(<folder>): the target fovea::torch: headers, libtorch_cpu and libc10, all that a CPU program needs.
function(fovea_add_torch folder)
  add_library(fovea::torch INTERFACE IMPORTED GLOBAL)
  # -idirafter: the wheel carries fmt 12, which must not hide the system's fmt that spdlog is built against.
  target_compile_options(fovea::torch INTERFACE
    "SHELL:-idirafter ${folder}/include"
    "SHELL:-idirafter ${folder}/include/torch/csrc/api/include")
  target_compile_definitions(fovea::torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
  # at::parallel_for is a template in a header: compiled without OpenMP it runs in one thread, and says nothing. The
  # run-time library is the libgomp.so.1 that lies in the wheel.
  target_compile_options(fovea::torch INTERFACE -fopenmp)
  target_link_options(fovea::torch INTERFACE -fopenmp)
  # libtorch_cpu itself names libcudart and libcupti; they lie beside it (../nvidia) or on the system, so undefined symbols
  # of shared libraries are left to the run-time linker.
  target_link_options(fovea::torch INTERFACE -Wl,--allow-shlib-undefined)
  target_link_libraries(fovea::torch INTERFACE "${folder}/lib/libtorch_cpu.so" "${folder}/lib/libc10.so")
endfunction()
