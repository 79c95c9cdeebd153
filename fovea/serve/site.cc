#include "fovea/serve/site.h"

#include <optional>

#include "fovea/serve/http/error_response.h"
#include "fovea/serve/http/page.h"
#include "fovea/serve/metrics_text.h"

namespace fovea::serve {
namespace {

constexpr const char* kReadyPath = "/v2/health/ready";

}  // namespace

std::vector<std::string> Site::open_paths() {
  auto paths = page_paths();
  paths.insert(paths.end(), {"/v2/health/live", kReadyPath});
  return paths;
}

std::string Site::metrics() const {
  std::vector<ModelMetrics> list;
  for (const auto& model : models_.models()) {
    list.push_back({.name = model.name,
                    .version = model.version.empty() ? "1" : model.version,
                    .is_ready = model.state == "READY",
                    .statistics = models_.statistics(model.name)});
  }
  return metrics_text(list);
}

void Site::handle(HttpRequest&& request, Done done) {
  if (is_stopping_ && request.path == kReadyPath) {
    return done(error_response(400, "the server is about to stop"));
  }
  auto page = page_response(request.path);
  const bool is_metrics = request.path == "/metrics";
  if (!page && !is_metrics) return api_.handle(std::move(request), std::move(done));
  if (request.method != "GET") {
    auto response = error_response(405, request.path + ": expected GET");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return done(std::move(response));
  }
  if (page) return done(std::move(*page));
  done({.status = 200, .headers = {{"Content-Type", kMetricsType}}, .body = metrics()});
}

}  // namespace fovea::serve
