// The protocol's calls.
#pragma once

#include "fovea/serve/grpc_module/ask.h"
#include "inference.grpc.pb.h"

namespace fovea::serve::rpc {

class Service final : public ::inference::GRPCInferenceService::CallbackService {
 public:
  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;

  // `program` outlives it.
  explicit Service(Program& program) : program_(program) {}

  Unary* ServerLive(Context* context, const ::inference::ServerLiveRequest* request,
                    ::inference::ServerLiveResponse* response) override;
  Unary* ServerReady(Context* context, const ::inference::ServerReadyRequest* request,
                     ::inference::ServerReadyResponse* response) override;
  Unary* ModelReady(Context* context, const ::inference::ModelReadyRequest* request,
                    ::inference::ModelReadyResponse* response) override;
  Unary* ServerMetadata(Context* context, const ::inference::ServerMetadataRequest* request,
                        ::inference::ServerMetadataResponse* response) override;
  Unary* ModelMetadata(Context* context, const ::inference::ModelMetadataRequest* request,
                       ::inference::ModelMetadataResponse* response) override;
  Unary* ModelConfig(Context* context, const ::inference::ModelConfigRequest* request,
                     ::inference::ModelConfigResponse* response) override;
  Unary* ModelStatistics(Context* context, const ::inference::ModelStatisticsRequest* request,
                         ::inference::ModelStatisticsResponse* response) override;
  Unary* RepositoryIndex(Context* context, const ::inference::RepositoryIndexRequest* request,
                         ::inference::RepositoryIndexResponse* response) override;
  Unary* RepositoryModelLoad(Context* context,
                             const ::inference::RepositoryModelLoadRequest* request,
                             ::inference::RepositoryModelLoadResponse* response) override;
  Unary* RepositoryModelUnload(Context* context,
                               const ::inference::RepositoryModelUnloadRequest* request,
                               ::inference::RepositoryModelUnloadResponse* response) override;
  Unary* ModelInfer(Context* context, const ::inference::ModelInferRequest* request,
                    ::inference::ModelInferResponse* response) override;
  // Requests of a stream are answered one after another.
  grpc::ServerBidiReactor<::inference::ModelInferRequest, ::inference::ModelStreamInferResponse>*
  ModelStreamInfer(Context* context) override;

 private:
  Program& program_;
};

}  // namespace fovea::serve::rpc
