#include "fovea/serve/grpc_module/service.h"

#include <functional>
#include <utility>

#include "fovea/serve/grpc_module/infer_stream.h"

namespace fovea::serve::rpc {
namespace {

using Context = grpc::CallbackServerContext;
using Unary = grpc::ServerUnaryReactor;
// Writes a call's response out of an answer.
using Fill = std::function<grpc::Status(const HttpAnswer&)>;

// A call of one message; it lives until gRPC has done with it.
class UnaryCall final : public Unary {
 public:
  void OnDone() override { delete this; }
};

// One that the server finishes before it stops.
class TakenCall final : public Unary {
 public:
  explicit TakenCall(Program& program) : program_(program), is_taken_(program.taken.begin()) {}
  bool is_taken() const { return is_taken_; }
  void OnDone() override {
    if (is_taken_) program_.taken.end();
    delete this;
  }

 private:
  Program& program_;
  const bool is_taken_;
};

void finish(Unary& call, const Program& program, const Context& context,
            const HttpQuestion& question, Fill fill) {
  if (!question.refused.empty())
    return call.Finish({grpc::StatusCode::INVALID_ARGUMENT, question.refused});
  ask(program, context, question,
      [&call, fill = std::move(fill)](const HttpAnswer& answer) { call.Finish(fill(answer)); });
}

// Answered at once, also while the server stops.
Unary* answer_call(const Program& program, const Context& context, const HttpQuestion& question,
                   Fill fill) {
  auto* const call = new UnaryCall;
  finish(*call, program, context, question, std::move(fill));
  return call;
}

Unary* take_call(Program& program, const Context& context, const HttpQuestion& question,
                 Fill fill) {
  auto* const call = new TakenCall(program);
  if (call->is_taken()) {
    finish(*call, program, context, question, std::move(fill));
  } else {
    call->Finish({grpc::StatusCode::UNAVAILABLE, kStopping});
  }
  return call;
}

// `read`: whether the answer is what it should be.
template <class Read>
Fill filled_by(Read read) {
  return [read](const HttpAnswer& answer) -> grpc::Status {
    const auto status = status_of(answer);
    if (!status.ok() || read(answer)) return status;
    return {grpc::StatusCode::INTERNAL, kNoAnswer};
  };
}

// The response is the JSON of the answer.
Fill json_into(google::protobuf::Message* response, const char* field = "") {
  return filled_by([=](const HttpAnswer& answer) { return read_json(answer, field, *response); });
}

// 200: yes, 400: no.
template <class Set>
Fill whether(Set set) {
  return [set](const HttpAnswer& answer) {
    if (answer.status != 200 && answer.status != 400) return status_of(answer);
    set(answer.status == 200);
    return grpc::Status::OK;
  };
}

HttpQuestion question_at(const char* path) {
  HttpQuestion question;
  question.path = path;
  return question;
}

}  // namespace

Unary* Service::ServerLive(Context* context, const ::inference::ServerLiveRequest* /*request*/,
                           ::inference::ServerLiveResponse* response) {
  return answer_call(program_, *context, question_at("/v2/health/live"),
                     whether([response](bool is_live) { response->set_live(is_live); }));
}

Unary* Service::ServerReady(Context* context, const ::inference::ServerReadyRequest* /*request*/,
                            ::inference::ServerReadyResponse* response) {
  return answer_call(program_, *context, question_at("/v2/health/ready"),
                     whether([response](bool is_ready) { response->set_ready(is_ready); }));
}

Unary* Service::ModelReady(Context* context, const ::inference::ModelReadyRequest* request,
                           ::inference::ModelReadyResponse* response) {
  return answer_call(program_, *context,
                     model_question(request->name(), request->version(), "ready"),
                     whether([response](bool is_ready) { response->set_ready(is_ready); }));
}

Unary* Service::ServerMetadata(Context* context,
                               const ::inference::ServerMetadataRequest* /*request*/,
                               ::inference::ServerMetadataResponse* response) {
  return answer_call(program_, *context, question_at("/v2"), json_into(response));
}

Unary* Service::ModelMetadata(Context* context, const ::inference::ModelMetadataRequest* request,
                              ::inference::ModelMetadataResponse* response) {
  return answer_call(program_, *context, model_question(request->name(), request->version(), ""),
                     json_into(response));
}

Unary* Service::ModelConfig(Context* context, const ::inference::ModelConfigRequest* request,
                            ::inference::ModelConfigResponse* response) {
  return answer_call(program_, *context,
                     model_question(request->name(), request->version(), "config"),
                     json_into(response, "config"));
}

Unary* Service::ModelStatistics(Context* context,
                                const ::inference::ModelStatisticsRequest* request,
                                ::inference::ModelStatisticsResponse* response) {
  const auto question = request->name().empty()
                            ? question_at("/v2/models/stats")
                            : model_question(request->name(), request->version(), "stats");
  return answer_call(program_, *context, question, json_into(response));
}

Unary* Service::RepositoryIndex(Context* context,
                                const ::inference::RepositoryIndexRequest* request,
                                ::inference::RepositoryIndexResponse* response) {
  return answer_call(program_, *context, index_question(*request), json_into(response, "models"));
}

Unary* Service::RepositoryModelLoad(Context* context,
                                    const ::inference::RepositoryModelLoadRequest* request,
                                    ::inference::RepositoryModelLoadResponse* /*response*/) {
  return take_call(program_, *context, load_question(*request), status_of);
}

Unary* Service::RepositoryModelUnload(Context* context,
                                      const ::inference::RepositoryModelUnloadRequest* request,
                                      ::inference::RepositoryModelUnloadResponse* /*response*/) {
  return take_call(program_, *context, unload_question(*request), status_of);
}

Unary* Service::ModelInfer(Context* context, const ::inference::ModelInferRequest* request,
                           ::inference::ModelInferResponse* response) {
  return take_call(
      program_, *context, infer_question(*request),
      filled_by([response](const HttpAnswer& answer) { return read_outputs(answer, *response); }));
}

grpc::ServerBidiReactor<::inference::ModelInferRequest, ::inference::ModelStreamInferResponse>*
Service::ModelStreamInfer(Context* context) {
  return new InferStream(program_, *context);
}

}  // namespace fovea::serve::rpc
