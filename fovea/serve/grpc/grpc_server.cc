#include "fovea/serve/grpc/grpc_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/loaded_library.h"
#include "fovea/core/log.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/core/program_files.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/http/listen_address.h"
#include "fovea/serve/http/server_state.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string text_of(GrpcBytes bytes) {
  return bytes.size == 0 ? std::string() : std::string(bytes.data, bytes.size);
}

GrpcBytes bytes_of(std::string_view text) { return {text.data(), text.size()}; }

// All but its body.
HttpRequest head_of(const GrpcRequest& asked, milliseconds answer_time) {
  HttpRequest request{.method = text_of(asked.method),
                      .path = text_of(asked.path),
                      .headers = {},
                      .body = {},
                      .id = {},
                      .deadline = {}};
  if (asked.authorization.size > 0)
    request.headers.emplace_back("authorization", text_of(asked.authorization));
  if (asked.id.size > 0) request.headers.emplace_back("x-request-id", text_of(asked.id));
  if (asked.json_length >= 0)
    request.headers.emplace_back("inference-header-content-length",
                                 std::to_string(asked.json_length));
  const auto time = milliseconds(std::max<int64_t>(asked.milliseconds, 0));
  request.deadline = Clock::now() + std::min(answer_time, time);
  return request;
}

void call_back(GrpcDone done, void* call, const HttpResponse& response) {
  const auto* const length = find_header(response.headers, "Inference-Header-Content-Length");
  const GrpcReply reply{
      .status = response.status,
      .body = bytes_of(response.body),
      .json_length = length == nullptr ? -1 : parse_number<int64_t>(*length).value_or(-1)};
  done(call, &reply);
}

// What is called once, with an answer or, where nobody has one, with a fault; and what the call
// holds until then.
class Reply {
 public:
  Reply(GrpcDone done, void* call, std::shared_ptr<ServerState> state)
      : state_(std::move(state)), held_{state_->bodies}, done_(done), call_(call) {}
  ~Reply() { give(error_response(500, "the server has no answer to this request")); }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  void give(const HttpResponse& response) {
    if (is_given_.exchange(true)) return;
    if (response.status >= 500) log_warning(fmt::format("request {}: {}", id, response.status));
    call_back(done_, call_, response);
  }

  // Throws StatusError: 503.
  void hold(size_t bytes) { held_.grow_to(bytes); }

  std::string id;  // of the request

 private:
  const std::shared_ptr<ServerState> state_;  // outlives what it holds for the call
  HeldBytes held_;
  const GrpcDone done_;
  void* const call_;
  std::atomic<bool> is_given_ = false;
};

void take_body(const GrpcRequest& asked, Reply& reply, std::string& body) {
  size_t size = 0;
  for (size_t i = 0; i < asked.num_parts; ++i) size += asked.body[i].size;
  reply.hold(size);
  body.reserve(size);
  for (size_t i = 0; i < asked.num_parts; ++i) {
    if (asked.body[i].size > 0) body.append(asked.body[i].data, asked.body[i].size);
  }
}

void handle(const std::shared_ptr<ServerState>& state, const GrpcRequest& asked,
            const std::shared_ptr<Reply>& reply) {
  auto request = head_of(asked, state->limits.answer_time);
  request.id = reply->id = state->id_of(request);
  state->access.check(request);
  take_body(asked, *reply, request.body);
  state->handler.handle(std::move(request),
                        [reply](HttpResponse&& response) { reply->give(response); });
}

std::optional<std::string> pem_of(const std::string& path) {
  constexpr uint64_t kMaxPemBytes = 1 << 20;
  if (path.empty()) return std::nullopt;
  return read_file(path, kMaxPemBytes);
}

// 127.0.0.1:8001, [::1]:8001
std::string address_text(const std::string& address, int64_t port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

GrpcModuleOptions module_options(const HttpLimits& limits) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();  // gRPC's numbers are int
  return {.address = nullptr,
          .certificate = nullptr,
          .key = nullptr,
          .message_bytes = std::min(static_cast<int64_t>(limits.body_bytes), kMost),
          .all_messages_bytes = static_cast<int64_t>(limits.all_bodies_bytes),
          .metadata_bytes = static_cast<int64_t>(limits.header_bytes),
          .connection_calls = std::min(limits.max_connections, kMost),
          .handshake_milliseconds = limits.header_time.count(),
          .idle_milliseconds = limits.idle_time.count(),
          .message_milliseconds = limits.transfer_time(limits.body_bytes).count(),
          .answer_milliseconds = limits.answer_time.count(),
          .linger_milliseconds = limits.linger_time.count()};
}

// Beside the program when installed; above it in a build folder.
std::optional<std::filesystem::path> find_module() {
  return find_near_program({"libfovea_grpc.so", "lib/libfovea_grpc.so"}, /*num_folders=*/3);
}

}  // namespace

bool has_grpc_module() { return find_module().has_value(); }

const GrpcModule& load_grpc_module() {
  const auto file = find_module();
  if (!file) {
    fail<ConfigError>(
        "gRPC wants libfovea_grpc.so, which is not beside the program or in the folders above it; "
        "expected a build that found gRPC: apt-get install libgrpc++-dev libprotobuf-dev "
        "protobuf-compiler-grpc, then build again (HTTP needs none of it)");
  }
  const LoadedLibrary library(file->string(), LibraryNames::kOwn);
  const auto entry = library.find<decltype(&fovea_grpc_module)>("fovea_grpc_module");
  if (entry == nullptr) {
    fail<ConfigError>(
        "{} does not load: {}; expected it to be built on this system, and with it "
        "libgrpc++ and libprotobuf",
        printable(file->string()), library.why_not());
  }
  const GrpcModule& module = *entry();
  if (module.version != std::string_view(FOVEA_VERSION)) {
    fail<ConfigError>("{} is of Fovea {}, and this program is {}; expected both of one build",
                      printable(file->string()), module.version, FOVEA_VERSION);
  }
  return module;
}

class GrpcServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler& handler, const GrpcModule& module)
      : module_(module),
        state_(std::make_shared<ServerState>(handler, options.limits,
                                             Access(options.bearer_file, options.open_paths))) {
    const auto host = listen_address(options);
    const auto address = address_text(host, options.port);
    const auto certificate = pem_of(options.tls_certificate), key = pem_of(options.tls_key);
    auto words = module_options(options.limits);
    words.address = address.c_str();
    if (certificate && key) {
      words.certificate = certificate->c_str();
      words.key = key->c_str();
    }
    server_ = module_.start(
        &words, {.self = this, .handle = &handle_from_module, .admit = &admit_from_module}, &port_);
    if (server_ != nullptr) return;
    fail<ConfigError>(
        "port {} of {} cannot be listened on; expected a free port of this machine (another "
        "--grpc-port, 0 for any){}",
        options.port, host, certificate ? " and a certificate that fits its key" : "");
  }

  ~Impl() { module_.stop(server_); }

  int64_t port() const { return port_; }
  bool drain(milliseconds patience) { return module_.drain(server_, patience.count()); }

 private:
  // Nothing is thrown into the module.
  static void handle_from_module(void* self, const GrpcRequest* asked, GrpcDone done, void* call) {
    const auto& state = static_cast<Impl*>(self)->state_;
    const auto reply = std::make_shared<Reply>(done, call, state);
    try {
      handle(state, *asked, reply);
    } catch (const StatusError& error) {
      reply->give(error_response(error.status(), error.what()));
    } catch (const std::exception&) {  // what it says may hold parts of the request
      reply->give(error_response(500, "an error within the server, which knows it by the id " +
                                          printable_start(reply->id)));
    }
  }

  static void admit_from_module(void* self, const GrpcRequest* head, GrpcDone done, void* call) {
    const auto& state = *static_cast<Impl*>(self)->state_;
    try {
      state.access.check(head_of(*head, state.limits.answer_time));
    } catch (const StatusError& error) {
      call_back(done, call, error_response(error.status(), error.what()));
    } catch (const std::exception&) {
      call_back(done, call, error_response(500, "an error within the server"));
    }
  }

  const GrpcModule& module_;
  const std::shared_ptr<ServerState> state_;
  void* server_ = nullptr;
  int port_ = 0;
};

GrpcServer::GrpcServer(const HttpServerOptions& options, HttpHandler& handler,
                       const GrpcModule& module)
    : impl_(std::make_unique<Impl>(options, handler, module)) {}
GrpcServer::~GrpcServer() = default;

int64_t GrpcServer::port() const { return impl_->port(); }
bool GrpcServer::drain(milliseconds patience) { return impl_->drain(patience); }

}  // namespace fovea::serve
