#include "fovea/serve/grpc_module/service.h"

#include <string_view>
#include <utility>

#include "fovea/serve/grpc_module/infer_stream.h"

namespace fovea::serve::rpc {
namespace {

namespace pb = ::inference;

// By one of these a call is admitted before its message says more of the path. Which of them want
// no key the program knows.
constexpr const char* kLivePath = "/v2/health/live";
constexpr const char* kReadyPath = "/v2/health/ready";
constexpr const char* kAnyPath = "/v2/models";

// A method of one message and one answer: what it asks of the program, and how what that says
// becomes its response.
template <class Request, class Response>
struct Unary {
  std::function<HttpQuestion(const Request&)> question;
  std::function<grpc::Status(const HttpAnswer&, Response&)> fill;
  bool is_work = false;  // what is taken of it is finished before the server stops
  std::string path = kAnyPath;
};

template <class Request, class Response>
class UnaryCall final : public Call {
 public:
  UnaryCall(Program& program, const CallContext& context, const Unary<Request, Response>& method)
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

  const Unary<Request, Response>& method_;
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

using Methods = std::map<std::string, Service::Method>;

template <class Request, class Response>
void add(Methods& methods, const char* name, Unary<Request, Response> method) {
  auto path = method.path;
  methods[name] = {.begin =
                       [method = std::move(method)](Program& program, const CallContext& context) {
                         return new UnaryCall<Request, Response>(program, context, method);
                       },
                   .path = std::move(path)};
}

// Answered at once, also while the server stops.
void add_questions(Methods& methods) {
  using namespace pb;
  add<ServerLiveRequest, ServerLiveResponse>(
      methods, "ServerLive",
      {ask_at(kLivePath), whether(&ServerLiveResponse::set_live), false, kLivePath});
  add<ServerReadyRequest, ServerReadyResponse>(
      methods, "ServerReady",
      {ask_at(kReadyPath), whether(&ServerReadyResponse::set_ready), false, kReadyPath});
  add<ServerMetadataRequest, ServerMetadataResponse>(methods, "ServerMetadata",
                                                     {ask_at("/v2"), json_into()});
  add<ModelReadyRequest, ModelReadyResponse>(
      methods, "ModelReady", {ask_of_model("ready"), whether(&ModelReadyResponse::set_ready)});
  add<ModelMetadataRequest, ModelMetadataResponse>(methods, "ModelMetadata",
                                                   {ask_of_model(""), json_into()});
  add<ModelConfigRequest, ModelConfigResponse>(methods, "ModelConfig",
                                               {ask_of_model("config"), json_into("config")});
  add<ModelStatisticsRequest, ModelStatisticsResponse>(methods, "ModelStatistics",
                                                       {statistics_question, json_into()});
  add<RepositoryIndexRequest, RepositoryIndexResponse>(methods, "RepositoryIndex",
                                                       {index_question, json_into("models")});
}

void add_work(Methods& methods) {
  using namespace pb;
  add<RepositoryModelLoadRequest, RepositoryModelLoadResponse>(
      methods, "RepositoryModelLoad", {load_question, nothing_of, /*is_work=*/true});
  add<RepositoryModelUnloadRequest, RepositoryModelUnloadResponse>(
      methods, "RepositoryModelUnload", {unload_question, nothing_of, /*is_work=*/true});
  add<ModelInferRequest, ModelInferResponse>(methods, "ModelInfer",
                                             {infer_question, outputs_of, /*is_work=*/true});
  methods["ModelStreamInfer"] = {
      .begin = [](Program& program,
                  const CallContext& context) { return new InferStream(program, context); },
      .path = kAnyPath};
}

Methods all_methods() {
  Methods methods;
  add_questions(methods);
  add_work(methods);
  return methods;
}

constexpr std::string_view kService = "/inference.GRPCInferenceService/";

}  // namespace

Service::Service(Program& program) : program_(program), methods_(all_methods()) {}

grpc::ServerGenericBidiReactor* Service::CreateReactor(CallContext* context) {
  const std::string_view name = context->method();
  const auto found = name.starts_with(kService)
                         ? methods_.find(std::string(name.substr(kService.size())))
                         : methods_.end();
  if (found == methods_.end()) return grpc::CallbackGenericService::CreateReactor(context);
  const auto& method = found->second;
  auto status = admit(program_, *context, method.path);
  if (!status.ok()) return new RefusedCall(std::move(status));
  return method.begin(program_, *context);
}

}  // namespace fovea::serve::rpc
