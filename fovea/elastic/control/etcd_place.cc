#include <fmt/ranges.h>

#include "fovea/core/environment.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/etcd_client.h"
#include "fovea/net/url.h"

namespace fovea::elastic {
namespace {

std::string given_or_variable(const std::string& given, const char* variable) {
  return given.empty() ? environment_variable(variable) : given;
}

// "host:2379" behind the scheme. A password in an address is refused without being repeated: it
// would stand in lists of processes and in logs.
std::string checked_endpoint(std::string_view given, bool has_user) {
  const bool has_scheme = given.find("://") != given.npos;
  std::string url = (has_scheme ? "" : "http://") + std::string(given);
  if (url.ends_with('/') && !url.ends_with("://")) url.pop_back();
  const bool is_tls = url.starts_with("https://");
  const std::string_view host = std::string_view(url).substr(url.find("://") + 3);
  if (host.find('@') != host.npos) {
    fail<ConfigError>(
        "an address of etcd has a user or password in it; give the address alone, and set {} and "
        "{}",
        kEtcdUserVariable, kEtcdPasswordVariable);
  }
  const bool is_plain = host.find_first_of("/?# \t\r\n\"'") == host.npos;
  if ((!is_tls && !url.starts_with("http://")) || host.empty() || !is_plain) {
    fail<ConfigError>("address of etcd '{}'; expected http://HOST:PORT or https://HOST:PORT",
                      printable_start(given));
  }
  if (has_user && !is_tls && !net::is_on_this_machine(host)) {
    log_warning(fmt::format(
        "etcd at {}: user and password travel in the clear; take https:// and --etcd-ca",
        printable_start(url)));
  }
  return url;
}

}  // namespace

std::string EtcdPlace::name() const { return fmt::format("{}", fmt::join(endpoints, ",")); }

std::string EtcdPlace::first_host() const {
  const std::string& url = endpoints.front();
  auto host = url.substr(url.find("://") + 3);
  if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

EtcdPlace etcd_place(const std::string& urls, const std::string& ca_file, const std::string& user) {
  EtcdPlace place{.ca_file = given_or_variable(ca_file, kEtcdCaVariable),
                  .user = given_or_variable(user, kEtcdUserVariable),
                  .password = given_or_variable("", kEtcdPasswordVariable)};
  const auto all = given_or_variable(urls, kEtcdVariable);
  for (size_t start = 0; start < all.size();) {
    const auto end = std::min(all.find(',', start), all.size());
    if (end > start) {
      place.endpoints.push_back(
          checked_endpoint(std::string_view(all).substr(start, end - start), !place.user.empty()));
    }
    start = end + 1;
  }
  if (place.endpoints.empty()) {
    fail<ConfigError>("no address of etcd; give --etcd URL,... or set {}", kEtcdVariable);
  }
  if (!place.user.empty() && place.password.empty()) {
    fail<ConfigError>("etcd's user '{}' has no password; set {}", printable_start(place.user),
                      kEtcdPasswordVariable);
  }
  if (!place.ca_file.empty() && !is_there(place.ca_file)) {
    fail<ConfigError>("{}: no such file; expected the certificate of who signs etcd's (PEM)",
                      printable(place.ca_file));
  }
  return place;
}

}  // namespace fovea::elastic
