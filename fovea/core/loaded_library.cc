#include "fovea/core/loaded_library.h"

#include <dlfcn.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

int flags_of(LibraryNames names) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const int own = 0;
#else
  const int own = RTLD_DEEPBIND;
#endif
  return RTLD_NOW | RTLD_LOCAL | (names == LibraryNames::kOwn ? own : 0);
}

}  // namespace

LoadedLibrary::LoadedLibrary(const std::string& name, LibraryNames names)
    : name_(name), library_(dlopen(name.c_str(), flags_of(names))) {
  if (library_ == nullptr) why_not_ = dlerror();
}

void LoadedLibrary::check_there(const char* use, const char* advice) const {
  if (why_not_.empty()) return;
  fail<ConfigError>("{} with {}, which cannot be loaded ({}); {}", use, name_, why_not_, advice);
}

void* LoadedLibrary::address_of(const char* function) const {
  return library_ == nullptr ? nullptr : dlsym(library_, function);
}

void LoadedLibrary::fail_without(const char* function, const char* expected) const {
  fail<ConfigError>("{} has no {}; expected {}", name_, function, expected);
}

}  // namespace fovea
