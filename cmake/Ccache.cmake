# ccache where it is present. Precompiled headers need the sloppiness below, as ccache's manual says.
find_program(FOVEA_CCACHE ccache)
if(FOVEA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      "${FOVEA_CCACHE}")
endif()
