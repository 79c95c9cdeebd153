#include "fovea/serve/grpc_module/service.h"

#include <string_view>
#include <utility>

#include "fovea/serve/grpc_module/infer_stream.h"

namespace fovea::serve::rpc {
namespace {

namespace pb = ::inference;

// A method of one message and one answer: what it asks of the program, and how what that says
// becomes its response.
template <class Request, class Response>
struct Method {
  std::function<HttpQuestion(const Request&)> question;
  std::function<grpc::Status(const HttpAnswer&, Response&)> fill;
  bool is_work = false;  // what is taken of it is finished before the server stops
};

template <class Request, class Response>
class UnaryCall final : public Call {
 public:
  UnaryCall(Program& program, const CallContext& context, const Method<Request, Response>& method)
      : Call(program, context), method_(method) {
    read();
  }
  void OnDone() override {
    if (is_taken_) program_.taken.end();
    Call::OnDone();
  }

 private:
  void take(grpc::ByteBuffer& message) override {
    if (!read_message(message, request_))
      return Finish({grpc::StatusCode::INVALID_ARGUMENT, kNoRequest});
    is_taken_ = method_.is_work && program_.taken.begin();
    if (method_.is_work && !is_taken_) return Finish({grpc::StatusCode::UNAVAILABLE, kStopping});
    const auto question = method_.question(request_);
    if (!question.refused.empty())
      return Finish({grpc::StatusCode::INVALID_ARGUMENT, question.refused});
    ask(program_, context_, question, [this](const HttpAnswer& one) { answer(one); });
  }
  void take_end() override {
    Finish({grpc::StatusCode::INVALID_ARGUMENT, "a call without a message; expected one"});
  }
  void answer(const HttpAnswer& answer) {
    Response response;
    auto status = method_.fill(answer, response);
    if (!status.ok()) return Finish(std::move(status));
    response_ = message_bytes(response);
    StartWriteAndFinish(&response_, {}, grpc::Status::OK);
  }

  const Method<Request, Response>& method_;
  Request request_;
  grpc::ByteBuffer response_;
  bool is_taken_ = false;
};

// `read`: whether the answer is what it should be.
template <class Response, class Read>
grpc::Status fill_by(const HttpAnswer& answer, Response& response, Read read) {
  const auto status = status_of(answer);
  if (!status.ok() || read(answer, response)) return status;
  return {grpc::StatusCode::INTERNAL, kNoAnswer};
}

// The response, or one field of it, is the JSON of the answer.
auto json_into(std::string field = "") {
  return [field = std::move(field)](const HttpAnswer& answer, google::protobuf::Message& response) {
    return fill_by(answer, response,
                   [&](const auto& one, auto& message) { return read_json(one, field, message); });
  };
}

// 200: yes, 400: no.
template <class Response>
auto whether(void (Response::*set)(bool)) {
  return [set](const HttpAnswer& answer, Response& response) {
    if (answer.status != 200 && answer.status != 400) return status_of(answer);
    (response.*set)(answer.status == 200);
    return grpc::Status::OK;
  };
}

grpc::Status nothing_of(const HttpAnswer& answer, const google::protobuf::Message& /*response*/) {
  return status_of(answer);
}

grpc::Status outputs_of(const HttpAnswer& answer, pb::ModelInferResponse& response) {
  return fill_by(answer, response, read_outputs);
}

auto ask_at(std::string path) {
  return [path = std::move(path)](const google::protobuf::Message& /*request*/) {
    HttpQuestion question;
    question.path = path;
    return question;
  };
}

auto ask_of_model(std::string action) {
  return [action = std::move(action)](const auto& request) {
    return model_question(request.name(), request.version(), action);
  };
}

HttpQuestion statistics_question(const pb::ModelStatisticsRequest& request) {
  if (request.name().empty()) return ask_at("/v2/models/stats")(request);
  return ask_of_model("stats")(request);
}

using Calls = std::map<std::string, Service::Begin>;

template <class Request, class Response>
void add(Calls& calls, const char* name, Method<Request, Response> method) {
  calls[name] = [method = std::move(method)](Program& program, const CallContext& context) {
    return new UnaryCall<Request, Response>(program, context, method);
  };
}

// Answered at once, also while the server stops.
void add_questions(Calls& calls) {
  using namespace pb;
  add<ServerLiveRequest, ServerLiveResponse>(
      calls, "ServerLive", {ask_at("/v2/health/live"), whether(&ServerLiveResponse::set_live)});
  add<ServerReadyRequest, ServerReadyResponse>(
      calls, "ServerReady", {ask_at("/v2/health/ready"), whether(&ServerReadyResponse::set_ready)});
  add<ServerMetadataRequest, ServerMetadataResponse>(calls, "ServerMetadata",
                                                     {ask_at("/v2"), json_into()});
  add<ModelReadyRequest, ModelReadyResponse>(
      calls, "ModelReady", {ask_of_model("ready"), whether(&ModelReadyResponse::set_ready)});
  add<ModelMetadataRequest, ModelMetadataResponse>(calls, "ModelMetadata",
                                                   {ask_of_model(""), json_into()});
  add<ModelConfigRequest, ModelConfigResponse>(calls, "ModelConfig",
                                               {ask_of_model("config"), json_into("config")});
  add<ModelStatisticsRequest, ModelStatisticsResponse>(calls, "ModelStatistics",
                                                       {statistics_question, json_into()});
  add<RepositoryIndexRequest, RepositoryIndexResponse>(calls, "RepositoryIndex",
                                                       {index_question, json_into("models")});
}

void add_work(Calls& calls) {
  using namespace pb;
  add<RepositoryModelLoadRequest, RepositoryModelLoadResponse>(
      calls, "RepositoryModelLoad", {load_question, nothing_of, /*is_work=*/true});
  add<RepositoryModelUnloadRequest, RepositoryModelUnloadResponse>(
      calls, "RepositoryModelUnload", {unload_question, nothing_of, /*is_work=*/true});
  add<ModelInferRequest, ModelInferResponse>(calls, "ModelInfer",
                                             {infer_question, outputs_of, /*is_work=*/true});
  calls["ModelStreamInfer"] = [](Program& program, const CallContext& context) {
    return new InferStream(program, context);
  };
}

Calls all_calls() {
  Calls calls;
  add_questions(calls);
  add_work(calls);
  return calls;
}

constexpr std::string_view kService = "/inference.GRPCInferenceService/";

}  // namespace

Service::Service(Program& program) : program_(program), calls_(all_calls()) {}

grpc::ServerGenericBidiReactor* Service::CreateReactor(CallContext* context) {
  const std::string_view method = context->method();
  const auto call = method.starts_with(kService)
                        ? calls_.find(std::string(method.substr(kService.size())))
                        : calls_.end();
  if (call == calls_.end()) return grpc::CallbackGenericService::CreateReactor(context);
  return call->second(program_, *context);
}

}  // namespace fovea::serve::rpc
