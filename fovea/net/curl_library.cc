#include "fovea/net/curl_library.h"

#include "fovea/core/loaded_library.h"

namespace fovea::net {
namespace {

constexpr const char* kExpected = "libcurl 7.85 or later";

CurlLibrary load() {
  const LoadedLibrary library(FOVEA_CURL_LIBRARY);
  library.check_there("HTTP is spoken", "install libcurl (Debian: libcurl4)");
  CurlLibrary found{};
  library.require("curl_global_init", kExpected, found.global_init);
  library.require("curl_global_cleanup", kExpected, found.global_cleanup);
  library.require("curl_slist_append", kExpected, found.slist_append);
  library.require("curl_slist_free_all", kExpected, found.slist_free_all);
  library.require("curl_easy_init", kExpected, found.easy_init);
  library.require("curl_easy_setopt", kExpected, found.easy_setopt);
  library.require("curl_easy_getinfo", kExpected, found.easy_getinfo);
  library.require("curl_easy_strerror", kExpected, found.easy_strerror);
  library.require("curl_easy_cleanup", kExpected, found.easy_cleanup);
  library.require("curl_multi_init", kExpected, found.multi_init);
  library.require("curl_multi_add_handle", kExpected, found.multi_add_handle);
  library.require("curl_multi_remove_handle", kExpected, found.multi_remove_handle);
  library.require("curl_multi_perform", kExpected, found.multi_perform);
  library.require("curl_multi_info_read", kExpected, found.multi_info_read);
  library.require("curl_multi_poll", kExpected, found.multi_poll);
  library.require("curl_multi_wakeup", kExpected, found.multi_wakeup);
  library.require("curl_multi_cleanup", kExpected, found.multi_cleanup);
  library.require("curl_url", kExpected, found.url);
  library.require("curl_url_set", kExpected, found.url_set);
  library.require("curl_url_get", kExpected, found.url_get);
  library.require("curl_url_cleanup", kExpected, found.url_cleanup);
  library.require("curl_free", kExpected, found.free);
  return found;
}

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load();
  return library;
}

}  // namespace fovea::net
