// A repository of tiny models, and requests to it without a network.
#pragma once

#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/core/json.h"
#include "fovea/data/image/png.h"
#include "fovea/serve/inference_api.h"
#include "fovea/serve/protocol/infer_response.h"
#include "tests/train/model_cases.h"

namespace fovea::serve::testing {

using train::testing::Folder;

inline ModelSource source_of(const Folder& folder, const train::TrainConfig& config,
                             const std::string& name) {
  const auto recipe = folder.file(name + ".yaml");
  std::ofstream(recipe) << dump_config(config);
  ModelSource source{.name = name, .target = recipe};
  source.options.device = "cpu";
  return source;
}

// A gray PNG of 8 x 8 pixels.
inline std::string png_bytes(int first, int64_t side = 8) {
  data::Image image{.height = side, .width = side, .channels = 1, .pixels = {}};
  for (int64_t i = 0; i < side * side; ++i)
    image.pixels.push_back(static_cast<uint8_t>(first + 3 * i));
  const auto png = data::encode_png(image);
  return {png.begin(), png.end()};
}

inline std::string bytes_tensor(const std::vector<std::string>& elements) {
  std::string bytes;
  for (const auto& element : elements) add_bytes_element(bytes, element);
  return bytes;
}

template <class T>
std::string number_bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

inline HttpRequest request_to(const std::string& path, const std::string& method = "GET",
                              std::string body = {}) {
  return {.method = method,
          .path = path,
          .headers = {},
          .body = std::move(body),
          .id = "r1",
          .deadline = std::chrono::steady_clock::time_point::max()};
}

// A request with one input as binary data.
inline HttpRequest infer_of(const std::string& model, nlohmann::json input, const std::string& data,
                            nlohmann::json others = nlohmann::json::object()) {
  input["parameters"]["binary_data_size"] = data.size();
  others["inputs"] = nlohmann::json::array({input});
  const auto head = json_text(others);
  auto request = request_to("/v2/models/" + model + "/infer", "POST", head + data);
  request.headers.emplace_back("inference-header-content-length", std::to_string(head.size()));
  return request;
}

inline HttpRequest images_request(const std::string& model, const std::vector<std::string>& files,
                                  nlohmann::json others = nlohmann::json::object()) {
  return infer_of(model, {{"name", "image"}, {"datatype", "BYTES"}, {"shape", {files.size(), 1}}},
                  bytes_tensor(files), std::move(others));
}

inline std::future<HttpResponse> send(InferenceApi& api, HttpRequest request) {
  const auto answer = std::make_shared<std::promise<HttpResponse>>();
  auto future = answer->get_future();
  api.handle(std::move(request),
             [answer](HttpResponse&& response) { answer->set_value(std::move(response)); });
  return future;
}

inline HttpResponse ask(InferenceApi& api, HttpRequest request) {
  return send(api, std::move(request)).get();
}

inline std::string header_of(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return {};
}

inline nlohmann::json json_of(const HttpResponse& response) {
  const auto length = header_of(response, "Inference-Header-Content-Length");
  return parse_json(length.empty() ? response.body : response.body.substr(0, std::stoul(length)),
                    "the answer");
}

// An output by its name; null where there is none.
inline nlohmann::json output_of(const HttpResponse& response, const std::string& name) {
  const auto answer = json_of(response);
  for (const auto& output : answer.at("outputs")) {
    if (output["name"] == name) return output;
  }
  return {};
}

// The bytes of an output that came as binary data.
inline std::string binary_of(const HttpResponse& response, const std::string& name) {
  size_t place = std::stoul(header_of(response, "Inference-Header-Content-Length"));
  const auto answer = json_of(response);
  for (const auto& output : answer.at("outputs")) {
    if (!output.contains("parameters")) continue;
    const auto size = output["parameters"]["binary_data_size"].get<size_t>();
    if (output["name"] == name) return response.body.substr(place, size);
    place += size;
  }
  return {};
}

inline std::string error_of(const HttpResponse& response) {
  const auto body = parse_json(response.body);
  return body.is_object() && body.contains("error") ? body["error"].get<std::string>()
                                                    : std::string();
}

}  // namespace fovea::serve::testing
