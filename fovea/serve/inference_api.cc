#include "fovea/serve/inference_api.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/infer_request.h"
#include "fovea/serve/protocol/status_error.h"
#include "fovea/serve/served_model.h"
#include "fovea/serve/statistics_json.h"

namespace fovea::serve {
namespace {

using nlohmann::ordered_json;

constexpr const char* kJsonLength = "inference-header-content-length";

HttpResponse json_response(const ordered_json& value) {
  return {
      .status = 200, .headers = {{"Content-Type", "application/json"}}, .body = json_text(value)};
}

HttpResponse ready_response(bool is_ready) {
  return {.status = is_ready ? 200 : 400, .headers = {}, .body = {}};
}

// What went wrong with request `id`: what a client could know of it is told, the rest logged.
HttpResponse response_of(const std::exception_ptr& error, const std::string& id) {
  try {
    std::rethrow_exception(error);
  } catch (const StatusError& failure) {
    return error_response(failure.status(), failure.what());
  } catch (const Error& failure) {
    return error_response(400, failure.what());
  } catch (const std::exception& failure) {
    const std::string_view what = failure.what();
    log_warning(
        fmt::format("request {}: {}", id, printable_start(what.substr(0, what.find('\n')), 300)));
  } catch (...) {
    log_warning(fmt::format("request {}: an error of no kind that is known", id));
  }
  return error_response(500, "the server failed at this request; its log says more under " + id);
}

// "/v2/models/vit/infer": v2, models, vit, infer. A slash at the end does not count.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    path.remove_prefix(path.front() == '/' ? 1 : 0);
    const auto end = std::min(path.find('/'), path.size());
    if (end > 0 || end < path.size()) parts.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return parts;
}

void check_method(const HttpRequest& request, std::string_view expected) {
  if (request.method == expected || (expected == "GET" && request.method == "HEAD")) return;
  fail_with(405, "{} {}; expected {}", printable_start(request.method, 16),
            printable_start(request.path), expected);
}

[[noreturn]] void fail_as_unknown(const std::string& path) {
  fail_with(404,
            "nothing is at {}; expected a path of the Open Inference Protocol, such as "
            "/v2/models/NAME/infer",
            printable_start(path));
}

std::optional<uint64_t> json_length_of(const HttpRequest& request) {
  const auto* const given = find_header(request.headers, kJsonLength);
  if (given == nullptr) return std::nullopt;
  const auto length = parse_number<uint64_t>(*given);
  if (!length) {
    fail_with(400, "Inference-Header-Content-Length: '{}'; expected a number of bytes",
              printable_start(*given));
  }
  return length;
}

HttpResponse infer_response(InferResponse&& response) {
  auto body = write_infer_response(std::move(response));
  HttpResponse http;
  http.headers.emplace_back("Content-Type",
                            body.json_length ? "application/octet-stream" : "application/json");
  if (body.json_length)
    http.headers.emplace_back("Inference-Header-Content-Length", std::to_string(*body.json_length));
  http.body = std::move(body.bytes);
  return http;
}

// /v2/models/NAME[/versions/VERSION][/ACTION]
struct ModelPath {
  std::string name, version, action;
};

ModelPath model_path(const std::vector<std::string>& parts, const std::string& path) {
  ModelPath model{.name = parts[2], .version = {}, .action = {}};
  size_t next = 3;
  if (parts.size() > next + 1 && parts[next] == "versions") {
    model.version = parts[next + 1];
    next += 2;
  }
  if (parts.size() > next) model.action = parts[next++];
  if (parts.size() > next) fail_as_unknown(path);
  return model;
}

bool is_model_ready(const ModelRepository& models, const ModelPath& path) {
  try {
    return models.find(path.name, path.version)->is_taking();
  } catch (const StatusError&) {
    return false;
  }
}

// The JSON of a request of the repository; nothing is a request without wishes.
nlohmann::json body_json(const HttpRequest& request) {
  if (request.body.empty()) return nlohmann::json::object();
  auto value = parse_json(request.body, "the request", 16);
  if (!value.is_object()) JsonValue(value, "the request").refuse("an object");
  return value;
}

void check_load_wishes(const HttpRequest& request) {
  const auto body = body_json(request);
  const auto parameters = body.find("parameters");
  if (parameters == body.end() || !parameters->is_object()) return;
  for (const auto& [name, value] : parameters->items()) {
    if (name == "unload_dependents") continue;  // there are none
    fail_with(400, "parameters.{}: expected none: a model is loaded as the server was started with",
              printable_start(name));
  }
}

bool is_path(const std::vector<std::string>& parts, size_t size, std::string_view second) {
  return parts.size() >= size && parts[1] == second;
}

}  // namespace

InferenceApi::InferenceApi(ModelRepository& models, ApiOptions options)
    : models_(models), options_(std::move(options)) {}

void InferenceApi::handle(HttpRequest&& request, Done done) {
  const auto id = request.id;
  HttpResponse response;
  try {
    const auto parts = parts_of(request.path);
    if (parts.empty() || parts[0] != "v2") fail_as_unknown(request.path);
    if (is_path(parts, 4, "models") && parts.back() == "infer") {
      return infer(std::move(request), parts, done);
    }
    if (is_path(parts, 5, "repository")) return control(request, parts, done);
    response = answer(request, parts);
  } catch (...) {
    response = response_of(std::current_exception(), id);
  }
  done(std::move(response));
}

HttpResponse InferenceApi::answer(const HttpRequest& request,
                                  const std::vector<std::string>& parts) const {
  if (parts.size() == 3 && parts[1] == "repository" && parts[2] == "index") {
    check_method(request, "POST");
    return index(request);
  }
  check_method(request, "GET");
  if (parts.size() == 1) return json_response(server_metadata());
  if (parts.size() == 3 && parts[1] == "health" && parts[2] == "live") return ready_response(true);
  if (parts.size() == 3 && parts[1] == "health" && parts[2] == "ready")
    return ready_response(models_.is_ready());
  if (parts.size() == 3 && parts[1] == "models" && parts[2] == "stats") return all_statistics();
  if (!is_path(parts, 3, "models")) fail_as_unknown(request.path);
  return answer_of_model(request, parts);
}

HttpResponse InferenceApi::answer_of_model(const HttpRequest& request,
                                           const std::vector<std::string>& parts) const {
  const auto path = model_path(parts, request.path);
  if (path.action == "ready") return ready_response(is_model_ready(models_, path));
  const auto model = models_.find(path.name, path.version);
  if (path.action.empty()) return json_response(model->metadata());
  if (path.action == "config") return json_response(model->config());
  if (path.action != "stats") fail_as_unknown(request.path);
  const auto statistics = statistics_json(path.name, models_.statistics(path.name));
  return json_response({{"model_stats", ordered_json::array({statistics})}});
}

ordered_json InferenceApi::server_metadata() const {
  return {{"name", "fovea"},
          {"version", options_.server_version},
          {"extensions",
           {"classification", "model_repository", "model_repository(unload_dependents)",
            "schedule_policy", "model_configuration", "binary_tensor_data", "parameters",
            "statistics"}}};
}

HttpResponse InferenceApi::all_statistics() const {
  auto list = ordered_json::array();
  for (const auto& model : models_.models()) {
    if (!model.version.empty())
      list.push_back(statistics_json(model.name, models_.statistics(model.name)));
  }
  return json_response({{"model_stats", list}});
}

HttpResponse InferenceApi::index(const HttpRequest& request) const {
  const auto body = body_json(request);
  const auto ready = JsonValue(body, "the request").find("ready");
  const bool only_ready = ready && ready->boolean();
  auto list = ordered_json::array();
  for (const auto& model : models_.models()) {
    if (only_ready && model.state != "READY") continue;
    list.push_back({{"name", model.name},
                    {"version", model.version},
                    {"state", model.state},
                    {"reason", model.reason}});
  }
  return json_response(list);
}

void InferenceApi::infer(HttpRequest&& request, const std::vector<std::string>& parts,
                         const Done& done) const {
  check_method(request, "POST");
  const auto path = model_path(parts, request.path);
  const auto model = models_.find(path.name, path.version);
  const auto json_length = json_length_of(request);
  auto body = std::make_shared<const std::string>(std::move(request.body));
  auto question = read_infer_request(std::move(body), json_length);
  model->infer(std::move(question), request.deadline,
               [done, id = request.id](InferResponse&& response, std::exception_ptr error) {
                 HttpResponse http;
                 try {
                   if (error) std::rethrow_exception(error);
                   http = infer_response(std::move(response));
                 } catch (...) {
                   http = response_of(std::current_exception(), id);
                 }
                 done(std::move(http));
               });
}

void InferenceApi::control(const HttpRequest& request, const std::vector<std::string>& parts,
                           const Done& done) {
  const auto& action = parts[4];
  if (parts.size() != 5 || parts[2] != "models" || (action != "load" && action != "unload")) {
    fail_as_unknown(request.path);
  }
  check_method(request, "POST");
  if (!options_.model_control) {
    fail_with(400,
              "models of this server are fixed; expected it to be started with --model-control to "
              "{} them",
              action);
  }
  check_load_wishes(request);
  loader_.post([this, done, name = parts[3], is_load = action == "load", id = request.id] {
    HttpResponse response;
    try {
      if (is_load) {
        models_.load(name);
      } else {
        models_.unload(name);
      }
    } catch (...) {
      response = response_of(std::current_exception(), id);
    }
    done(std::move(response));
  });
}

}  // namespace fovea::serve
