# cmake -DOUT=commit.h -P Commit.cmake, run in the source folder at each build: the commit that is built, as a header that
# changes only where the commit does. "+changes": the tree differs from it.
execute_process(COMMAND git describe --always --abbrev=12 --exclude=* --dirty=+changes
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0 OR commit STREQUAL "")
  set(commit "unknown")  # an archive of the sources, or no git
endif()
set(text "#pragma once\n#define FOVEA_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUT}" "${text}")
endif()
