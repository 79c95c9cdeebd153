# fovea::gdcm, where libgdcm-dev is there: compressed DICOM. Its own CMake package is not used: in Debian it asks for the
# files of packages beside it (tools, VTK), which nothing here needs.
function(fovea_find_gdcm)
  if(TARGET fovea::gdcm)
    return()
  endif()
  find_path(FOVEA_GDCM_INCLUDE gdcmJPEG2000Codec.h PATH_SUFFIXES gdcm-3.0)
  set(libraries "")
  foreach(name MSFF DSED Common)
    find_library(FOVEA_GDCM_${name} gdcm${name})
    if(NOT FOVEA_GDCM_INCLUDE OR NOT FOVEA_GDCM_${name})
      return()
    endif()
    list(APPEND libraries "${FOVEA_GDCM_${name}}")
  endforeach()
  add_library(fovea::gdcm INTERFACE IMPORTED GLOBAL)
  set_target_properties(fovea::gdcm PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${FOVEA_GDCM_INCLUDE}"
                        INTERFACE_INCLUDE_DIRECTORIES "${FOVEA_GDCM_INCLUDE}" INTERFACE_LINK_LIBRARIES "${libraries}")
endfunction()
