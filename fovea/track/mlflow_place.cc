#include "fovea/track/mlflow_place.h"

#include <string_view>

#include "fovea/core/base64.h"
#include "fovea/core/environment.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/net/url.h"

namespace fovea::track {
namespace {

constexpr std::string_view kExpected = "expected http://HOST:PORT or https://HOST:PORT";

// What MLflow's own client takes besides servers.
std::string fault_of_scheme(std::string_view scheme) {
  if (scheme.starts_with("databricks")) {
    return fmt::format(
        "found {}, which MLflow's client looks up in files of Databricks; {}, as https://WORKSPACE "
        "with MLFLOW_TRACKING_TOKEN",
        printable_start(scheme), kExpected);
  }
  const bool is_files = scheme == "file" || scheme.empty();
  return fmt::format(
      "found {}, which MLflow's client writes to by itself; {}: start `mlflow server "
      "--backend-store-uri {}` and give its address",
      is_files ? "a folder" : "the database " + printable_start(scheme), kExpected,
      is_files ? "FOLDER" : "DATABASE");
}

std::string_view host_of(std::string_view uri) {
  const auto host = uri.substr(uri.find("://") + 3);
  return host.substr(0, host.find('/'));
}

std::string authorization_from_environment() {
  const auto user = environment_variable("MLFLOW_TRACKING_USERNAME");
  const auto password = environment_variable("MLFLOW_TRACKING_PASSWORD");
  const auto token = environment_variable("MLFLOW_TRACKING_TOKEN");
  if ((user + password + token).find_first_of("\r\n") != std::string::npos) {
    fail<ConfigError>(
        "MLFLOW_TRACKING_USERNAME, _PASSWORD or _TOKEN has a line end in it; expected one line");
  }
  // As MLflow's client has it: the user goes first.
  if (!user.empty()) return "Basic " + base64_encode(user + ":" + password);
  return token.empty() ? "" : "Bearer " + token;
}

}  // namespace

std::string fault_of_uri(const std::string& uri) {
  const auto colon = uri.find(':');
  const bool has_authority = uri.find("://") == colon && colon != uri.npos;
  const auto scheme = lowered(colon == uri.npos ? "" : uri.substr(0, colon));
  if (scheme != "http" && scheme != "https") {
    if (!has_authority && uri.find_first_of("/\\") == uri.npos && scheme != "file" &&
        !scheme.starts_with("databricks") && uri != "databricks") {
      return fmt::format("found '{}'; {}", printable_start(uri), kExpected);
    }
    return fault_of_scheme(uri == "databricks" ? uri : scheme);
  }
  if (!has_authority) return fmt::format("found '{}'; {}", printable_start(uri), kExpected);
  const auto host = host_of(uri);
  if (host.find('@') != host.npos) {
    return fmt::format(
        "has a user or password in it, which would stand in the run folder; {} alone, and set "
        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
        kExpected);
  }
  const bool is_plain = uri.find_first_of("?# \t\r\n\"'\\") == uri.npos;
  if (is_plain && !host.empty() && !host.starts_with(':')) return "";
  return fmt::format("found '{}'; {}", printable_start(uri), kExpected);
}

MlflowPlace mlflow_place(const std::string& uri) {
  constexpr const char* kVariable = "MLFLOW_TRACKING_URI";
  MlflowPlace place{.uri = uri.empty() ? environment_variable(kVariable) : uri,
                    .ca_file = environment_variable("MLFLOW_TRACKING_SERVER_CERT_PATH"),
                    .authorization = authorization_from_environment()};
  if (place.uri.empty()) {
    fail<ConfigError>(
        "no address of an MLflow server; {}: log.mlflow.uri of the recipe, {}, or --uri of `fovea "
        "track`",
        kExpected, kVariable);
  }
  if (const auto fault = fault_of_uri(place.uri); !fault.empty()) {
    fail<ConfigError>("{}: {}", uri.empty() ? kVariable : "uri of MLflow", fault);
  }
  while (place.uri.ends_with('/')) place.uri.pop_back();
  const bool is_clear = lowered(place.uri.substr(0, 5)) == "http:";
  if (is_clear && !place.authorization.empty() && !net::is_on_this_machine(host_of(place.uri))) {
    log_warning(
        fmt::format("MLflow at {}: the password or token travels in the clear; take "
                    "https:// where the server has it",
                    place.uri));
  }
  return place;
}

std::string mlflow_experiment(const std::string& given) {
  if (!given.empty()) return given;
  const auto of_environment = environment_variable("MLFLOW_EXPERIMENT_NAME");
  return of_environment.empty() ? "Default" : of_environment;
}

}  // namespace fovea::track
