// Functions of libraries that are loaded at run time, of which this program links nothing.
#pragma once

#include <dlfcn.h>

namespace fovea::kernels {

// Null: no library that is loaded has it. Function: a pointer to a function with C's linkage.
template <class Function>
Function loaded_function(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace fovea::kernels
