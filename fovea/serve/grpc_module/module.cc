// The module's one function: see Note [A module for gRPC].
#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "fovea/serve/grpc/module_interface.h"
#include "fovea/serve/grpc_module/service.h"

namespace fovea::serve::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr milliseconds kRefusing{500};  // beyond the last answer

std::shared_ptr<grpc::ServerCredentials> credentials_of(const GrpcModuleOptions& options) {
  if (options.certificate == nullptr) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions ssl;
  ssl.pem_key_cert_pairs.push_back({options.key, options.certificate});
  return grpc::SslServerCredentials(ssl);
}

void set_limits(grpc::ServerBuilder& builder, const GrpcModuleOptions& options) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.message_bytes));
  builder.SetMaxSendMessageSize(-1);
  // The program refuses messages beyond the limit; gRPC, which ends calls and connections at its
  // own, has room for as many on their way.
  builder.SetResourceQuota(
      grpc::ResourceQuota("messages").Resize(2 * static_cast<size_t>(options.all_messages_bytes)));
  // How far a compressed message may expand cannot be said to gRPC; images are compressed already.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  const auto set = [&](const char* name, int64_t value) {
    builder.AddChannelArgument(name, static_cast<int>(value));
  };
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);  // else a port that is in use is shared
  set(GRPC_ARG_MAX_METADATA_SIZE, options.metadata_bytes);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.connection_calls);
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options.handshake_milliseconds);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.idle_milliseconds);
  // Of a client that has gone without a word its calls end.
  set(GRPC_ARG_KEEPALIVE_TIME_MS, options.idle_milliseconds);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.handshake_milliseconds);
}

class Server {
 public:
  Server(const GrpcModuleOptions& options, GrpcHost host)
      : program_{.host = host,
                 .answer_time = milliseconds(options.answer_milliseconds),
                 .message_time = milliseconds(options.message_milliseconds)},
        service_(program_),
        linger_(options.linger_milliseconds) {}

  // The port; 0: it cannot listen.
  int start(const GrpcModuleOptions& options) {
    int port = 0;
    grpc::ServerBuilder builder;
    set_limits(builder, options);
    builder.AddListeningPort(options.address, credentials_of(options), &port);
    builder.RegisterCallbackGenericService(&service_);
    google::protobuf::SetLogHandler(nullptr);         // it tells of what clients send
    gpr_set_log_function([](gpr_log_func_args*) {});  // why not is told by who started it
    server_ = builder.BuildAndStart();
    gpr_set_log_function(nullptr);
    return server_ ? port : 0;
  }

  // gRPC itself would cut those off that come while it stops. So requests are refused by us, until
  // all that were taken are answered and clients that ask one after another have met a refusal.
  // Then streams whose client says nothing are left.
  bool drain(milliseconds patience) {
    if (!server_) return true;
    const bool is_answered = program_.taken.drain(patience);
    if (is_answered) std::this_thread::sleep_for(std::min(kRefusing, patience));
    server_->Shutdown(system_clock::now() + (is_answered ? linger_ : milliseconds(0)));
    server_.reset();
    return is_answered;
  }

 private:
  Program program_;
  Service service_;
  const milliseconds linger_;
  std::unique_ptr<grpc::Server> server_;
};

void* start(const GrpcModuleOptions* options, GrpcHost host, int* port) {
  auto server = std::make_unique<Server>(*options, host);
  *port = server->start(*options);
  return *port == 0 ? nullptr : server.release();
}

bool drain(void* server, int64_t patience) {
  return static_cast<Server*>(server)->drain(milliseconds(patience));
}

void stop(void* server) {
  const std::unique_ptr<Server> last(static_cast<Server*>(server));
  if (last) last->drain(milliseconds(0));
}

}  // namespace
}  // namespace fovea::serve::rpc

extern "C" const fovea::serve::GrpcModule* fovea_grpc_module() {
  namespace rpc = fovea::serve::rpc;
  static constexpr fovea::serve::GrpcModule module = {
      .version = FOVEA_VERSION, .start = rpc::start, .drain = rpc::drain, .stop = rpc::stop};
  return &module;
}
