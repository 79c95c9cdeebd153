# fovea_library(<folder> [TORCH] [ROOMS folder...] LIBS ...): fovea/<folder>/*.cc as static library fovea::<folder>; with ROOMS
# what is in these folders, which then is no part of the library of a folder around them.
# fovea_test(<folder> [TORCH] [OPTIMIZED] [COST seconds] LIBS ...): tests/<folder>/*_test.cc as one GoogleTest program, which
# is one test of ctest. A room, elastic/control, is one by itself (test_elastic_control), and no part of what is around it. COST: the longest start first, so that no processor waits at the end. OPTIMIZED: where the program is
# more than its tests. Others are compiled without optimisation, in half the time; what they test is in libraries.
set(FOVEA_UNOPTIMIZED -O0)
# Test programs share the processors: threads of one that spin while they wait would keep the others' from working, which
# makes all of them four times as slow.
set(FOVEA_TEST_ENVIRONMENT OMP_WAIT_POLICY=passive)

# Targets that use libtorch share one precompiled header, whose name ends up in exactly one place.
# gcc reads one only when flags and the preprocessor's state agree, so there is a second one for what is compiled with
# sanitizers, and one for tests.
function(fovea_pch name header)
  add_library(${name} OBJECT "${CMAKE_SOURCE_DIR}/cmake/pch.cc")
  target_link_libraries(${name} PRIVATE fovea_settings ${ARGN} fovea::torch)
  target_precompile_headers(${name} PRIVATE "${CMAKE_SOURCE_DIR}/cmake/${header}")
  # ccache reads it only with this flag.
  target_compile_options(${name} PRIVATE -fpch-preprocess)
endfunction()

if(NOT FOVEA_DATA_ONLY)
  fovea_pch(fovea_pch pch.h)
  if(FOVEA_SANITIZE)
    fovea_pch(fovea_pch_checked pch.h fovea_check_memory)
  endif()
  if(FOVEA_TESTS)
    find_package(GTest REQUIRED)
    fovea_pch(fovea_pch_tests test_pch.h GTest::gmock)
    target_compile_options(fovea_pch_tests PRIVATE ${FOVEA_UNOPTIMIZED})
  endif()
endif()

# Many files at a time: what headers and their templates cost is paid once for all of them. Names in the anonymous
# namespaces of a folder are therefore unique. Highway compiles a file once per instruction set, by including it again.
function(fovea_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FOVEA_UNITY}
                        UNITY_BUILD_BATCH_SIZE ${FOVEA_UNITY_FILES})
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(STRINGS "${source}" includes_itself REGEX "foreach_target.h" LIMIT_COUNT 1)
    if(includes_itself)
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# fovea_use_torch(<target> [pch]): after all else that the target links.
function(fovea_use_torch target)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  set(pch fovea_pch)
  if(ARGC GREATER 1)
    set(pch ${ARGV1})
  elseif(FOVEA_SANITIZE AND libraries MATCHES fovea_check_memory)
    set(pch fovea_pch_checked)
  endif()
  target_link_libraries(${target} PUBLIC fovea::torch)
  target_precompile_headers(${target} REUSE_FROM ${pch})
  # -fPIC for programs too: with -fPIE the compiler refuses the header, which was compiled with -fPIC.
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC -fpch-preprocess)
endfunction()

function(fovea_library folder)
  cmake_parse_arguments(ARG "TORCH" "" "ROOMS;LIBS" ${ARGN})
  set(patterns "${CMAKE_SOURCE_DIR}/fovea/${folder}/*.cc")
  if(ARG_ROOMS)
    list(TRANSFORM ARG_ROOMS PREPEND "${CMAKE_SOURCE_DIR}/fovea/" OUTPUT_VARIABLE patterns)
    list(TRANSFORM patterns APPEND "/*.cc")
    set_property(GLOBAL APPEND PROPERTY FOVEA_ROOMS ${ARG_ROOMS})
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  list(FILTER sources EXCLUDE REGEX "/(cuda|grpc_module)/[^/]*$")  # of modules that are loaded
  if(NOT ARG_ROOMS)
    get_property(rooms GLOBAL PROPERTY FOVEA_ROOMS)
    foreach(room ${rooms})
      list(FILTER sources EXCLUDE REGEX "/fovea/${room}/")
    endforeach()
  endif()
  if(sources)
    add_library(fovea_${folder} STATIC ${sources})
    fovea_unity(fovea_${folder})
    target_link_libraries(fovea_${folder} PUBLIC fovea_settings ${ARG_LIBS}
                          PRIVATE $<BUILD_INTERFACE:fovea_check_memory>)
    if(ARG_TORCH)
      fovea_use_torch(fovea_${folder})
    endif()
  else()
    add_library(fovea_${folder} INTERFACE)
    target_link_libraries(fovea_${folder} INTERFACE fovea_settings ${ARG_LIBS})
  endif()
  add_library(fovea::${folder} ALIAS fovea_${folder})
  set_target_properties(fovea_${folder} PROPERTIES EXPORT_NAME ${folder})
  set_property(GLOBAL APPEND PROPERTY FOVEA_LIBRARIES ${folder})  # what is installed
endfunction()

function(fovea_test folder)
  cmake_parse_arguments(ARG "TORCH;OPTIMIZED" "COST" "LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${folder}/*_test.cc"
       "${CMAKE_SOURCE_DIR}/tests/${folder}/*_support.cc")
  get_property(rooms GLOBAL PROPERTY FOVEA_TEST_ROOMS)
  foreach(room ${rooms})
    list(FILTER sources EXCLUDE REGEX "/tests/${room}/")
  endforeach()
  if(NOT sources)
    return()
  endif()
  if(folder MATCHES "/")
    set_property(GLOBAL APPEND PROPERTY FOVEA_TEST_ROOMS ${folder})
    string(REPLACE "/" "_" folder ${folder})
  endif()
  add_executable(test_${folder} ${sources})
  fovea_unity(test_${folder})
  target_link_libraries(test_${folder} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_compile_definitions(test_${folder} PRIVATE FOVEA_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             FOVEA_BINARY="$<TARGET_FILE:fovea>"
                             FOVEA_CUDA_MODULE="$<$<TARGET_EXISTS:fovea_cuda>:$<TARGET_FILE:fovea_cuda>>")
  if(ARG_OPTIMIZED)
    fovea_use_torch(test_${folder})
  else()
    target_compile_options(test_${folder} PRIVATE ${FOVEA_UNOPTIMIZED})
    if(ARG_TORCH)
      fovea_use_torch(test_${folder} fovea_pch_tests)
    endif()
  endif()
  # A program is one test: started once each, more than a thousand tests would load libtorch as often. Suites named
  # Cuda... want a GPU or the libraries of one, and say so when they are skipped.
  add_test(NAME ${folder} COMMAND test_${folder} --gtest_brief=1 "--gtest_filter=-*Cuda*")
  set_tests_properties(${folder} PROPERTIES LABELS unit TIMEOUT 1800 ENVIRONMENT ${FOVEA_TEST_ENVIRONMENT})
  if(ARG_COST)
    set_tests_properties(${folder} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()
