# cmake --install: a tree that can be moved. Component `program`: fovea, its recipes and their schema, what it starts with
# Python, completion and manual pages. `library`: headers, static libraries and find_package(Fovea). `libtorch`: what both
# are linked with, in lib/fovea, where the program looks for it from its own place.
set(torch_place lib/fovea)
# The second place is that of torch's folder beside ours, of a Python package.
set_target_properties(fovea PROPERTIES INSTALL_RPATH "$ORIGIN/../${torch_place}/torch/lib;$ORIGIN/../../torch/lib")
install(TARGETS fovea RUNTIME DESTINATION bin COMPONENT program)
if(TARGET fovea_cuda)
  set_target_properties(fovea_cuda PROPERTIES INSTALL_RPATH "$ORIGIN/fovea/torch/lib;$ORIGIN/../../torch/lib")
  install(TARGETS fovea_cuda LIBRARY DESTINATION lib COMPONENT program)
endif()
if(TARGET fovea_grpc)
  install(TARGETS fovea_grpc LIBRARY DESTINATION lib COMPONENT program)
endif()
install(DIRECTORY recipes DESTINATION share/fovea COMPONENT program)
install(FILES tools/wandb_follow.py tools/onnxruntime_check.py DESTINATION share/fovea COMPONENT program)
install(FILES benchmarks/vs_timm.py DESTINATION share/fovea/benchmarks COMPONENT program)
include(Notices)
install(FILES LICENSE README.md "${CMAKE_BINARY_DIR}/THIRD_PARTY_NOTICES.txt" DESTINATION share/doc/fovea COMPONENT program)
# Made by the program that was built, at the moment of the installation.
install(CODE "set(installed_program \"$<TARGET_FILE:fovea>\")" COMPONENT program)
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
  foreach(place bash:bash-completion/completions/fovea zsh:zsh/site-functions/_fovea
                fish:fish/vendor_completions.d/fovea.fish)
    string(REGEX REPLACE ":.*" "" shell "${place}")
    string(REGEX REPLACE "^[^:]*:" "" name "${place}")
    get_filename_component(folder "${root}/${name}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    execute_process(COMMAND "${installed_program}" completion ${shell} OUTPUT_FILE "${root}/${name}" COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS "Made: ${root}/${name}")
  endforeach()
  execute_process(COMMAND "${installed_program}" man --out "${root}/man/man1" COMMAND_ERROR_IS_FATAL ANY)
]] COMPONENT program)

# The same within the Python package `fovea`; fovea_wheel: what is built for it.
if(TARGET fovea_python)
  add_custom_target(fovea_wheel DEPENDS fovea fovea_python)
  install(TARGETS fovea RUNTIME DESTINATION fovea/bin COMPONENT python)
  if(TARGET fovea_cuda)
    add_dependencies(fovea_wheel fovea_cuda)
    install(TARGETS fovea_cuda LIBRARY DESTINATION fovea/lib COMPONENT python)
  endif()
  install(DIRECTORY recipes DESTINATION fovea/share/fovea COMPONENT python)
  install(FILES tools/wandb_follow.py tools/onnxruntime_check.py DESTINATION fovea/share/fovea COMPONENT python)
  install(FILES benchmarks/vs_timm.py DESTINATION fovea/share/fovea/benchmarks COMPONENT python)
endif()

# The library.
include(CMakePackageConfigHelpers)
set(package lib/cmake/Fovea)
get_property(folders GLOBAL PROPERTY FOVEA_LIBRARIES)
list(TRANSFORM folders PREPEND fovea_ OUTPUT_VARIABLE libraries)
set_target_properties(fovea_settings PROPERTIES EXPORT_NAME settings)
install(TARGETS fovea_settings ${libraries} EXPORT fovea ARCHIVE DESTINATION lib COMPONENT library)
install(EXPORT fovea NAMESPACE fovea:: FILE FoveaTargets.cmake DESTINATION ${package} COMPONENT library)
install(DIRECTORY fovea DESTINATION include COMPONENT library FILES_MATCHING PATTERN "*.h" PATTERN cuda EXCLUDE PATTERN grpc_module EXCLUDE)
set(torch_folder ${torch_place}/torch)
set(fovea_modules SPNG:spng WEBP:libwebpdemux ZSTD:libzstd)  # what is found by pkg-config
set(fovea_gdcm NO)
if(TARGET fovea::gdcm)
  set(fovea_gdcm YES)
endif()
configure_package_config_file(cmake/FoveaConfig.cmake.in "${CMAKE_BINARY_DIR}/FoveaConfig.cmake"
                              INSTALL_DESTINATION ${package} PATH_VARS torch_folder)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/FoveaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/FoveaConfig.cmake" "${CMAKE_BINARY_DIR}/FoveaConfigVersion.cmake"
              cmake/FoveaTorch.cmake cmake/FoveaGdcm.cmake DESTINATION ${package} COMPONENT library)

# The libtorch that ./quickstart has fetched is copied, so that nothing leads back to the sources. Another one belongs to
# somebody else, with the CUDA libraries around it, and stays where it is: a link leads there.
install(CODE "file(REMOVE_RECURSE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${torch_place}\")" COMPONENT libtorch)
if(FOVEA_TORCH_DIR STREQUAL fetched_torch)
  install(DIRECTORY "${FOVEA_TORCH_DIR}/include" DESTINATION ${torch_place}/torch COMPONENT libtorch)
  install(DIRECTORY "${FOVEA_TORCH_DIR}/lib" DESTINATION ${torch_place}/torch COMPONENT libtorch FILES_MATCHING
          PATTERN "*.so" PATTERN "*.so.*" PATTERN "libtorch_python.so" EXCLUDE PATTERN "libshm*" EXCLUDE)
  install(DIRECTORY "${FOVEA_TORCH_DIR}/../nvidia" DESTINATION ${torch_place} COMPONENT libtorch)
else()
  install(CODE "
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${torch_place}\")
    file(CREATE_LINK \"${FOVEA_TORCH_DIR}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${torch_place}/torch\" SYMBOLIC)"
    COMPONENT libtorch)
endif()
