// fovea serve TARGET[=NAME]... [--port 8000] [--host 127.0.0.1]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/inference_options.h"
#include "apps/fovea/output.h"
#include "apps/fovea/served_targets.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/stop_signals.h"
#include "fovea/serve/grpc/grpc_server.h"
#include "fovea/serve/http/http_server.h"
#include "fovea/serve/inference_api.h"
#include "fovea/serve/site.h"

namespace fovea::app {
namespace {

constexpr std::chrono::milliseconds kSignalPause{50};

struct ServeArguments {
  std::vector<std::string> targets;
  train::InferenceOptions inference;
  int64_t threads = 0;
  serve::ServeOptions batching;
  bool no_warm_up = false;
  serve::HttpServerOptions http;
  std::optional<int64_t> grpc_port;
  int64_t max_body_mib = 128;
  int64_t answer_seconds = 60;
  bool model_control = false;
  bool json = false;
};

std::vector<serve::ModelSource> sources_of(const ServeArguments& arguments) {
  const auto& options = arguments.inference;
  std::vector<serve::ModelSource> sources;
  for (const auto& word : arguments.targets) {
    auto [target, name] = served_target(word);
    sources.push_back({.name = std::move(name), .target = std::move(target), .options = options});
  }
  const bool is_said_by_options = !options.model.empty() || !options.weights.empty();
  if (sources.empty() && is_said_by_options) {
    const auto& word = options.weights.empty() ? options.model : options.weights;
    sources.push_back({.name = served_target(word).name, .target = {}, .options = options});
  }
  if (sources.empty()) {
    fail<Error>("no model; expected RUN_DIR, WEIGHTS, RECIPE or MODEL; --help tells more");
  }
  if (is_said_by_options && sources.size() > 1) {
    fail<ConfigError>("--model and --weights say it of one model; expected one target, not {}",
                      sources.size());
  }
  return sources;
}

serve::HttpServerOptions http_options(const ServeArguments& arguments) {
  auto options = arguments.http;
  options.open_paths = serve::Site::open_paths();
  options.limits.body_bytes = static_cast<size_t>(arguments.max_body_mib) << 20;
  options.limits.all_bodies_bytes =
      std::max(options.limits.all_bodies_bytes, 2 * options.limits.body_bytes);
  options.limits.answer_time = std::chrono::seconds(arguments.answer_seconds);
  return options;
}

// The ranges that its fields say.
serve::ServeOptions checked_batching(const ServeArguments& arguments) {
  auto options = arguments.batching;
  options.warm_up = !arguments.no_warm_up;
  return parse_config<serve::ServeOptions>(dump_config(options), "the command line");
}

// False: told to stop meanwhile.
bool load_all(serve::ModelRepository& repository, const std::vector<serve::ModelSource>& sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    if (StopSignals::received() != 0) return false;
    tell("loading {} ({} of {})\n", sources[i].name, i + 1, sources.size());
    repository.load(sources[i].name);
  }
  return true;
}

// Nothing: without --grpc-port.
std::unique_ptr<serve::GrpcServer> grpc_server(const ServeArguments& arguments,
                                               serve::HttpServerOptions options,
                                               serve::HttpHandler& handler) {
  if (!arguments.grpc_port) return nullptr;
  options.port = *arguments.grpc_port;
  return std::make_unique<serve::GrpcServer>(options, handler, serve::load_grpc_module());
}

void say_ready(const ServeArguments& arguments, const std::vector<serve::ModelSource>& sources,
               int64_t port, const serve::GrpcServer* grpc) {
  std::vector<std::string> names;
  for (const auto& source : sources) names.push_back(source.name);
  if (arguments.json) {
    nlohmann::ordered_json first = {{"port", port}, {"models", names}};
    if (grpc != nullptr) first["grpc_port"] = grpc->port();
    say_as_is("{}\n", json_text(first));
  } else {
    const auto& host = arguments.http.host;
    const auto address = host.find(':') == std::string::npos ? host : "[" + host + "]";
    say("{} on {}://{}:{}/\n", fmt::join(names, ", "),
        arguments.http.tls_certificate.empty() ? "http" : "https", address, port);
    if (grpc != nullptr) say("gRPC on {}:{}\n", address, grpc->port());
  }
  std::fflush(stdout);  // who started this waits for it
}

// Both at a time: neither takes anything while the other one finishes.
void drain(serve::HttpServer& http, serve::GrpcServer* grpc, std::chrono::milliseconds patience) {
  std::future<void> other;
  if (grpc != nullptr)
    other = std::async(std::launch::async, [grpc, patience] { grpc->drain(patience); });
  http.drain(patience);
  if (other.valid()) other.get();
}

void run(const ServeArguments& arguments) {
  note_stop_signals_for_good();
  if (arguments.threads > 0) at::set_num_threads(static_cast<int>(arguments.threads));
  const auto sources = sources_of(arguments);
  serve::ModelRepository repository(checked_batching(arguments));
  for (const auto& source : sources) repository.add(source);
  serve::InferenceApi api(
      repository, {.server_version = FOVEA_VERSION, .model_control = arguments.model_control});
  serve::Site site(repository, api);
  const auto options = http_options(arguments);
  serve::HttpServer server(options, site);  // says that it lives while models are loaded
  const auto grpc = grpc_server(arguments, options, site);
  if (load_all(repository, sources)) say_ready(arguments, sources, server.port(), grpc.get());
  while (StopSignals::received() == 0) std::this_thread::sleep_for(kSignalPause);
  site.stop();
  tell("stopping: what was taken is finished\n");
  drain(server, grpc.get(), options.limits.answer_time + options.limits.body_time);
  repository.drain();
}

// --max-batch-size and its like, as the struct names and explains them.
class BatchingOptions {
 public:
  explicit BatchingOptions(Command command) : command_(command) {}
  template <class T>
  void field(const char* key, T& value, const std::string& help, const FieldOptions& range = {}) {
    if constexpr (!std::is_same_v<T, bool>) {
      std::string name = std::string("--") + key;
      std::replace(name.begin(), name.end(), '_', '-');
      auto option =
          command_.add_option(name, value, range.unit == "MiB" ? help + "; in MiB" : help);
      if constexpr (std::is_same_v<T, int64_t>) {
        option.show_default();
      } else {
        option.delimiter(',').one_word();
      }
    }
  }

 private:
  Command command_;
};

void add_http_options(Command command, ServeArguments& arguments) {
  auto& http = arguments.http;
  command.add_option("--port", http.port, "to listen on; 0: any that is free")
      .in_range(0, 65535)
      .show_default();
  command
      .add_option("--grpc-port", arguments.grpc_port,
                  "to listen on for gRPC, by the same protocol, keys, certificate and limits; 0: "
                  "any that is free")
      .in_range(0, 65535);
  command
      .add_option("--host", http.host,
                  "address to listen on; one that others reach needs --bearer-file")
      .show_default();
  command
      .add_option("--bearer-file", http.bearer_file,
                  "file with keys, one a line; requests bring one in Authorization: Bearer KEY")
      .type_name("FILE");
  auto certificate =
      command.add_option("--tls-certificate", http.tls_certificate,
                         "certificate in PEM, with those that lead to its authority");
  certificate.type_name("FILE");
  command.add_option("--tls-key", http.tls_key, "its key in PEM")
      .type_name("FILE")
      .needs(certificate);
  command.add_option("--max-body", arguments.max_body_mib, "MiB that a request may bring")
      .in_range(1, 4095)
      .show_default();
  command
      .add_option("--max-connections", http.limits.max_connections,
                  "open at one time; one more is refused with 503")
      .positive()
      .show_default();
  command
      .add_option("--answer-time", arguments.answer_seconds,
                  "seconds after which a request that is not answered gets 504")
      .in_range(1, 3600)
      .show_default();
}

}  // namespace

void add_serve(Command app) {
  auto command = app.add_command(
      "serve", "Answer requests for models over HTTP, by the Open Inference Protocol v2");
  auto arguments = std::make_shared<ServeArguments>();
  command
      .add_option("targets", arguments->targets,
                  "run folder, recipe (the model before training), weights file, "
                  "hf-hub:ORG/NAME[@REVISION] or a model's name, and the name that requests have "
                  "for it; default: the target's own")
      .type_name("TARGET[=NAME]...");
  add_weights_options(command, arguments->inference);
  add_compute_options(command, arguments->inference, arguments->threads);
  add_http_options(command, *arguments);
  BatchingOptions batching(command);
  serve::ServeOptions::visit(batching, arguments->batching);
  command.add_flag("--no-warm-up", arguments->no_warm_up,
                   "be ready without a pass of a blank input through each model");
  command.add_flag("--model-control", arguments->model_control,
                   "let clients load and unload models (v2/repository)");
  command.add_flag("--json", arguments->json,
                   "print one JSON object when all is ready: {port, models, grpc_port}");
  command.examples({"fovea serve runs/flowers",
                    "fovea serve runs/flowers runs/unetr=organs --port 0 --json",
                    "fovea serve runs/flowers --host 0.0.0.0 --bearer-file keys.txt "
                    "--tls-certificate cert.pem --tls-key key.pem"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
