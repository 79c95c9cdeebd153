// A client of the protocol, a call a line.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "inference.grpc.pb.h"

namespace fovea::serve::testing {

namespace pb = ::inference;

class GrpcClient {
 public:
  using Stub = pb::GRPCInferenceService::Stub;
  static constexpr std::chrono::seconds kPatience{20};

  explicit GrpcClient(int64_t port, std::shared_ptr<grpc::ChannelCredentials> credentials =
                                        grpc::InsecureChannelCredentials()) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetSslTargetNameOverride("test");
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    channel_ =
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), credentials, arguments);
    stub_ = pb::GRPCInferenceService::NewStub(channel_);
  }

  // client.call(&Stub::ServerLive, request, response)
  template <class Request, class Response>
  grpc::Status call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    prepare(context);
    return (stub_.get()->*method)(&context, request, &response);
  }

  void prepare(grpc::ClientContext& context) const {
    context.set_deadline(std::chrono::system_clock::now() + patience);
    for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
    context.set_compression_algorithm(compression);
  }

  Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  std::map<std::string, std::string> metadata = {};  // of each call
  std::chrono::milliseconds patience = kPatience;
  grpc_compression_algorithm compression = GRPC_COMPRESS_NONE;

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
};

}  // namespace fovea::serve::testing
