#include "fovea/elastic/control/curl_library.h"

#include <dlfcn.h>

#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return;
  fail<ConfigError>("{} has no {}; expected libcurl 7.85 or later", FOVEA_CURL_LIBRARY, name);
}

CurlLibrary load() {
  void* const library = dlopen(FOVEA_CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail<ConfigError>(
        "etcd is talked to with {}, which cannot be loaded ({}); install libcurl (Debian: "
        "libcurl4)",
        FOVEA_CURL_LIBRARY, dlerror());
  }
  CurlLibrary found{};
  find(library, "curl_global_init", found.global_init);
  find(library, "curl_global_cleanup", found.global_cleanup);
  find(library, "curl_slist_append", found.slist_append);
  find(library, "curl_slist_free_all", found.slist_free_all);
  find(library, "curl_easy_init", found.easy_init);
  find(library, "curl_easy_setopt", found.easy_setopt);
  find(library, "curl_easy_getinfo", found.easy_getinfo);
  find(library, "curl_easy_strerror", found.easy_strerror);
  find(library, "curl_easy_cleanup", found.easy_cleanup);
  find(library, "curl_multi_init", found.multi_init);
  find(library, "curl_multi_add_handle", found.multi_add_handle);
  find(library, "curl_multi_remove_handle", found.multi_remove_handle);
  find(library, "curl_multi_perform", found.multi_perform);
  find(library, "curl_multi_info_read", found.multi_info_read);
  find(library, "curl_multi_poll", found.multi_poll);
  find(library, "curl_multi_wakeup", found.multi_wakeup);
  find(library, "curl_multi_cleanup", found.multi_cleanup);
  return found;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load();
  return library;
}

}  // namespace fovea::elastic
