# libfovea_grpc.so, the loadable gRPC server of `fovea serve --grpc-port`: built where gRPC and protobuf are found. It alone
# sees them: libtorch has a protobuf of its own (Note [A module for gRPC]).
pkg_check_modules(GRPC QUIET IMPORTED_TARGET grpc++ protobuf)
find_program(FOVEA_PROTOC protoc)
find_program(FOVEA_GRPC_PLUGIN grpc_cpp_plugin)
if(GRPC_FOUND AND FOVEA_PROTOC AND FOVEA_GRPC_PLUGIN)
  set(grpc_found ON)
else()
  set(grpc_found OFF)
endif()
if(FOVEA_GRPC STREQUAL ON AND NOT grpc_found)
  message(FATAL_ERROR "FOVEA_GRPC=ON, but gRPC's library, protobuf's, protoc or grpc_cpp_plugin is missing; Debian has them as "
    "libgrpc++-dev, libprotobuf-dev and protobuf-compiler-grpc.")
elseif(FOVEA_GRPC AND NOT grpc_found)
  message(STATUS "gRPC is missing: `fovea serve --grpc-port` will say so (libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc).")
endif()
if(NOT FOVEA_GRPC OR NOT grpc_found)
  return()
endif()

set(grpc_folder "${CMAKE_SOURCE_DIR}/fovea/serve/grpc_module")
set(grpc_generated "${CMAKE_BINARY_DIR}/generated/grpc")
file(MAKE_DIRECTORY "${grpc_generated}")
add_custom_command(
  OUTPUT "${grpc_generated}/inference.pb.cc" "${grpc_generated}/inference.pb.h"
         "${grpc_generated}/inference.grpc.pb.cc" "${grpc_generated}/inference.grpc.pb.h"
  COMMAND "${FOVEA_PROTOC}" "--proto_path=${grpc_folder}" "--cpp_out=${grpc_generated}" "--grpc_out=${grpc_generated}"
          "--plugin=protoc-gen-grpc=${FOVEA_GRPC_PLUGIN}" inference.proto
  DEPENDS "${grpc_folder}/inference.proto" VERBATIM)
# The messages take their time in copies of bytes, so the compiler takes little.
add_library(fovea_grpc_messages OBJECT "${grpc_generated}/inference.pb.cc")
target_compile_options(fovea_grpc_messages PRIVATE -O1)
target_include_directories(fovea_grpc_messages SYSTEM PUBLIC "${grpc_generated}")
target_link_libraries(fovea_grpc_messages PUBLIC PkgConfig::GRPC Threads::Threads)
# The clients of tests.
add_library(fovea_grpc_stubs OBJECT EXCLUDE_FROM_ALL "${grpc_generated}/inference.grpc.pb.cc")
target_compile_options(fovea_grpc_stubs PRIVATE -O1)
target_link_libraries(fovea_grpc_stubs PUBLIC fovea_grpc_messages)

file(GLOB grpc_sources CONFIGURE_DEPENDS "${grpc_folder}/*.cc")
add_library(fovea_grpc_calls OBJECT ${grpc_sources})
fovea_unity(fovea_grpc_calls)
target_link_libraries(fovea_grpc_calls PUBLIC fovea_settings fovea_grpc_messages nlohmann_json::nlohmann_json
                      PRIVATE $<BUILD_INTERFACE:fovea_check_memory>)
if(FOVEA_SANITIZE STREQUAL thread)
  # protobuf's headers and abseil's would lay out objects with members that those of Debian's libraries do not have.
  target_compile_options(fovea_grpc_calls PRIVATE -U__SANITIZE_THREAD__)
endif()

# At the top of the build folder, where load_grpc_module looks. It exports one function; of the many libraries that
# pkg-config names it stands on those alone that it uses.
add_library(fovea_grpc MODULE $<TARGET_OBJECTS:fovea_grpc_calls> $<TARGET_OBJECTS:fovea_grpc_messages>)
set_target_properties(fovea_grpc PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}" LINKER_LANGUAGE CXX
                      LINK_DEPENDS "${grpc_folder}/exports.map")
target_link_options(fovea_grpc PRIVATE -Wl,--as-needed "-Wl,--version-script=${grpc_folder}/exports.map")
target_link_libraries(fovea_grpc PRIVATE fovea_settings PkgConfig::GRPC)
