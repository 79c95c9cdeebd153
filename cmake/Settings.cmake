# Language level, build type, warnings and sanitizers: one place, for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# No -march here: one binary serves every x86-64 machine; kernels/ and data/ dispatch at run time.
# Nobody reads errno after a square root; with it a root is a call, which no loop is vectorised over.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -fvect-cost-model=dynamic -fopenmp-simd -fno-math-errno")
# In debug builds, too: libtorch is built so, and at::RecordFunction has a member more without it.
add_compile_definitions(NDEBUG)
# clang takes minutes to optimise vector code that it has filled with checks.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -fopenmp-simd -Wno-pass-failed")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fopenmp-simd")
endif()

add_library(fovea_settings INTERFACE)
target_include_directories(fovea_settings INTERFACE "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>"
                           "$<INSTALL_INTERFACE:include>")
target_compile_features(fovea_settings INTERFACE cxx_std_20)
# Warnings and the version are the house's own: what builds against it has others.
target_compile_options(fovea_settings INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;$<$<BOOL:${FOVEA_WERROR}>:-Werror>>")
target_compile_definitions(fovea_settings INTERFACE "$<BUILD_INTERFACE:FOVEA_VERSION=\"${PROJECT_VERSION}\">")
if(FOVEA_AVX2_ONLY)  # Highway's targets are bits, the wider the lower
  target_compile_definitions(fovea_settings INTERFACE FOVEA_AVX2_ONLY "HWY_DISABLED_TARGETS=(HWY_AVX2-1)")
endif()
# fovea_check_memory: what the libraries and the fuzz targets are compiled with. The tests are linked only: a fault in a
# library is found all the same, and they compile in half the time.
add_library(fovea_check_memory INTERFACE)
if(FOVEA_SANITIZE)
  set(sanitizers address,undefined)
  if(FOVEA_SANITIZE STREQUAL thread)
    set(sanitizers thread)
    # Asio's fences, which it does not see: what they order is ordered by locks, too.
    target_compile_options(fovea_check_memory INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>")
  endif()
  target_compile_options(fovea_check_memory INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer)
  target_link_options(fovea_settings INTERFACE -fsanitize=${sanitizers})
  # GCC 12 takes branches that the sanitizers add for sizes that a string or vector could have; other builds still warn.
  target_compile_options(fovea_check_memory INTERFACE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds;-Wno-maybe-uninitialized;-Wno-nonnull;-Wno-restrict>")
endif()
if(FOVEA_FUZZERS)
  target_compile_options(fovea_check_memory INTERFACE -fsanitize=fuzzer-no-link)  # coverage leads the search
  find_program(FOVEA_LLD ld.lld)
  if(FOVEA_LLD)  # dozens of large programs: a fifth of the time
    target_link_options(fovea_settings INTERFACE -fuse-ld=lld)
  endif()
endif()
