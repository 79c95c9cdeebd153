#include "fovea/core/loaded_library.h"

#include <dlfcn.h>

#include "fovea/core/error.h"

namespace fovea {

LoadedLibrary::LoadedLibrary(const std::string& name)
    : name_(name), library_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) why_not_ = dlerror();
}

void* LoadedLibrary::address_of(const char* function) const {
  return library_ == nullptr ? nullptr : dlsym(library_, function);
}

void LoadedLibrary::fail_without(const char* function, const char* expected) const {
  fail<ConfigError>("{} has no {}; expected {}", name_, function, expected);
}

}  // namespace fovea
