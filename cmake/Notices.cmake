# THIRD_PARTY_NOTICES.txt: what Debian says of the licences of the libraries that are compiled in, or that a wheel carries, as
# tools/setup/apt-packages.txt lists them; and nanobind's.
set(notices "Fovea's own licence is in LICENSE. It is built with the libraries below.\n")
file(STRINGS "${CMAKE_SOURCE_DIR}/tools/setup/apt-packages.txt" lines REGEX "^[a-z0-9+-]+-dev +(build|check) ")
list(FILTER lines EXCLUDE REGEX "^(libgtest|libgmock|libclang|libopenslide|python3)")  # of tests; loaded from the system alone
foreach(line IN LISTS lines)
  string(REGEX MATCH "^[^ ]+" package "${line}")
  set(file "/usr/share/doc/${package}/copyright")
  if(EXISTS "${file}")
    file(READ "${file}" text)
    string(APPEND notices "\n---------- ${package}\n\n${text}")
  endif()
endforeach()
if(NB_DIR)  # of the Python modules
  file(GLOB nanobind_licence "${NB_DIR}/../nanobind-*.dist-info/licenses/LICENSE")
endif()
if(nanobind_licence)
  file(READ "${nanobind_licence}" text)
  string(APPEND notices "\n---------- nanobind\n\n${text}")
endif()
file(WRITE "${CMAKE_BINARY_DIR}/THIRD_PARTY_NOTICES.txt" "${notices}")
