# cmake --install: the program, its recipes and their schema, what it starts with Python, completion and manual pages. Libtorch
# stays where it is.
# One search path for libraries, in the build folder and installed: that of libtorch.
set_target_properties(fovea PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${FOVEA_TORCH_DIR}/lib")
install(TARGETS fovea RUNTIME DESTINATION bin)
if(TARGET fovea_cuda)
  set_target_properties(fovea_cuda PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${FOVEA_TORCH_DIR}/lib")
  install(TARGETS fovea_cuda LIBRARY DESTINATION lib)
endif()
install(DIRECTORY recipes DESTINATION share/fovea)
install(FILES tools/wandb_follow.py DESTINATION share/fovea)
install(FILES benchmarks/vs_timm.py DESTINATION share/fovea/benchmarks)
install(FILES LICENSE README.md DESTINATION share/doc/fovea)
# Made by the program that was built, at the moment of the installation.
install(CODE "set(program \"$<TARGET_FILE:fovea>\")")
install(CODE [[
  set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
  foreach(place bash:bash-completion/completions/fovea zsh:zsh/site-functions/_fovea
                fish:fish/vendor_completions.d/fovea.fish)
    string(REGEX REPLACE ":.*" "" shell "${place}")
    string(REGEX REPLACE "^[^:]*:" "" name "${place}")
    get_filename_component(folder "${root}/${name}" DIRECTORY)
    file(MAKE_DIRECTORY "${folder}")
    execute_process(COMMAND "${program}" completion ${shell} OUTPUT_FILE "${root}/${name}" COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS "Made: ${root}/${name}")
  endforeach()
  execute_process(COMMAND "${program}" man --out "${root}/man/man1" COMMAND_ERROR_IS_FATAL ANY)
]])
