#include "fovea/serve/grpc_module/service.h"

#include <gmock/gmock.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/serve/http/error_response.h"
#include "tests/serve/grpc_module/module_fixture.h"

namespace fovea::serve {
namespace {

using nlohmann::json;
using testing::GrpcClient;
using ::testing::HasSubstr;
using testing::json_answer;
using Stub = GrpcClient::Stub;
namespace pb = ::inference;

class GrpcServiceTest : public testing::GrpcModuleFixture {};

TEST_F(GrpcServiceTest, TellsWhetherItIsReady) {
  std::atomic<int> status = 200;
  auto& client = start([&](HttpRequest&&, const HttpHandler::Done& done) {
    done({.status = status.load(), .headers = {}, .body = {}});
  });
  pb::ServerReadyResponse server;
  pb::ModelReadyResponse model;
  pb::ModelReadyRequest request;
  request.set_name("vit");
  EXPECT_TRUE(client.call(&Stub::ServerReady, {}, server).ok());
  EXPECT_TRUE(server.ready());
  EXPECT_TRUE(client.call(&Stub::ModelReady, request, model).ok());
  EXPECT_TRUE(model.ready());
  status = 400;
  EXPECT_TRUE(client.call(&Stub::ServerReady, {}, server).ok());
  EXPECT_FALSE(server.ready());
  EXPECT_TRUE(client.call(&Stub::ModelReady, request, model).ok());
  EXPECT_FALSE(model.ready());
}

TEST_F(GrpcServiceTest, ReadsMetadataOutOfJson) {
  auto& client = start(json_answer(
      R"({"name": "vit", "versions": ["1"], "platform": "fovea", "later": 1,
          "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1, 1]}], "outputs": []})"));
  pb::ModelMetadataRequest request;
  pb::ModelMetadataResponse response;
  request.set_name("vit");
  request.set_version("1");
  ASSERT_TRUE(client.call(&Stub::ModelMetadata, request, response).ok());
  EXPECT_EQ(asked(), "GET /v2/models/vit/versions/1");
  EXPECT_EQ(response.platform(), "fovea");
  EXPECT_EQ(response.inputs(0).shape(0), -1);
}

TEST_F(GrpcServiceTest, ReadsListsAndNestedAnswers) {
  auto& client = start(json_answer(R"([{"name": "a", "state": "READY"}, {"name": "b"}])"));
  pb::RepositoryIndexRequest request;
  pb::RepositoryIndexResponse response;
  request.set_ready(true);
  ASSERT_TRUE(client.call(&Stub::RepositoryIndex, request, response).ok());
  EXPECT_EQ(asked(), "POST /v2/repository/index");
  EXPECT_EQ(asked_json(), json({{"ready", true}}));
  ASSERT_EQ(response.models_size(), 2);
  EXPECT_EQ(response.models(0).state(), "READY");
  pb::ModelConfigRequest one;
  pb::ModelConfigResponse config;
  EXPECT_EQ(client.call(&Stub::ModelConfig, one, config).error_code(),
            grpc::StatusCode::INTERNAL);  // a list is no configuration
}

TEST_F(GrpcServiceTest, WritesAnInferenceAsHttpHasIt) {
  HttpResponse answer{.status = 200, .headers = {}, .body = {}};
  const std::string head =
      R"({"id": "7", "model_name": "vit", "model_version": "1", "outputs": [
          {"name": "scores", "datatype": "FP32", "shape": [1, 1],
           "parameters": {"binary_data_size": 4}},
          {"name": "labels", "datatype": "BYTES", "shape": [1, 1],
           "parameters": {"binary_data_size": 5}}]})";
  answer.headers.emplace_back("Inference-Header-Content-Length", std::to_string(head.size()));
  answer.body = head + "abcd" + "12345";
  auto& client = start(answer);

  pb::ModelInferRequest request;
  request.set_model_name("vit");
  request.set_id("7");
  (*request.mutable_parameters())["timeout"].set_int64_param(5000);
  auto& input = *request.add_inputs();
  input.set_name("tensor");
  input.set_datatype("FP32");
  for (const int side : {1, 2}) input.add_shape(side);
  request.add_raw_input_contents("12345678");
  auto& output = *request.add_outputs();
  output.set_name("scores");
  (*output.mutable_parameters())["classification"].set_int64_param(2);
  pb::ModelInferResponse response;
  ASSERT_TRUE(client.call(&Stub::ModelInfer, request, response).ok());

  EXPECT_EQ(asked(), "POST /v2/models/vit/infer");
  EXPECT_TRUE(asked_.body.ends_with("}12345678"));
  const auto sent = asked_json();
  EXPECT_EQ(sent["id"], "7");
  EXPECT_EQ(sent["parameters"], json({{"timeout", 5000}, {"binary_data_output", true}}));
  EXPECT_EQ(sent["inputs"][0]["shape"], json({1, 2}));
  EXPECT_EQ(sent["inputs"][0]["parameters"]["binary_data_size"], 8);
  EXPECT_EQ(sent["outputs"][0]["parameters"], json({{"classification", 2}, {"binary_data", true}}));

  EXPECT_EQ(response.id(), "7");
  ASSERT_EQ(response.outputs_size(), 2);
  EXPECT_EQ(response.outputs(1).name(), "labels");
  EXPECT_EQ(response.raw_output_contents(0), "abcd");
  EXPECT_EQ(response.raw_output_contents(1), "12345");
}

TEST_F(GrpcServiceTest, WritesTypedContentsAsBytes) {
  auto& client = start(json_answer(R"({"outputs": []})"));
  pb::ModelInferRequest request;
  request.set_model_name("vit");
  auto& numbers = *request.add_inputs();
  numbers.set_name("tensor");
  numbers.set_datatype("FP32");
  numbers.mutable_contents()->add_fp32_contents(1.5F);
  auto& files = *request.add_inputs();
  files.set_name("image");
  files.set_datatype("BYTES");
  files.mutable_contents()->add_bytes_contents("ab");
  pb::ModelInferResponse response;
  ASSERT_TRUE(client.call(&Stub::ModelInfer, request, response).ok());
  const float number = 1.5F;
  std::string bytes(reinterpret_cast<const char*>(&number), sizeof number);
  bytes += std::string("\2\0\0\0ab", 6);
  EXPECT_TRUE(asked_.body.ends_with(bytes));
  EXPECT_EQ(asked_json()["inputs"][1]["parameters"]["binary_data_size"], 6);
}

TEST_F(GrpcServiceTest, RefusesContentsThatDoNotFit) {
  auto& client = start(json_answer("{}"));
  const auto said = [&](const pb::ModelInferRequest& request) {
    pb::ModelInferResponse response;
    const auto status = client.call(&Stub::ModelInfer, request, response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  pb::ModelInferRequest request;
  request.set_model_name("a/b");
  EXPECT_THAT(said(request), HasSubstr("no /"));
  request.set_model_name("vit");
  auto& input = *request.add_inputs();
  input.set_name("tensor");
  input.set_datatype("BF16");
  input.mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(said(request), HasSubstr("expected FP32 or BYTES"));
  request.add_raw_input_contents("12");
  EXPECT_THAT(said(request), HasSubstr("expected one of them"));
  request.add_raw_input_contents("34");
  EXPECT_THAT(said(request), HasSubstr("2 raw_input_contents of 1 inputs"));
}

TEST_F(GrpcServiceTest, TellsWhatWentWrongInCodesOfGrpc) {
  std::atomic<int> status = 0;
  auto& client = start([&](HttpRequest&&, const HttpHandler::Done& done) {
    done(error_response(status, "as it was said"));
  });
  const std::vector<std::pair<int, grpc::StatusCode>> codes = {
      {400, grpc::StatusCode::INVALID_ARGUMENT},   {404, grpc::StatusCode::NOT_FOUND},
      {413, grpc::StatusCode::RESOURCE_EXHAUSTED}, {503, grpc::StatusCode::UNAVAILABLE},
      {504, grpc::StatusCode::DEADLINE_EXCEEDED},  {500, grpc::StatusCode::INTERNAL}};
  for (const auto& [of_http, of_grpc] : codes) {
    status = of_http;
    pb::ModelConfigResponse response;
    const auto said = client.call(&Stub::ModelConfig, {}, response);
    EXPECT_EQ(said.error_code(), of_grpc) << of_http;
    EXPECT_EQ(said.error_message(), "as it was said");
  }
}

// Those that have no room are refused, and afterwards there is room again.
TEST_F(GrpcServiceTest, AnswersAStreamInOrder) {
  auto& client = start([](HttpRequest&& request, const HttpHandler::Done& done) {
    if (request.path == "/v2/models/none/infer") return done(error_response(404, "no such model"));
    const std::string head = R"({"outputs": [{"name": "o", "datatype": "BYTES", "shape": [1], )"
                             R"("parameters": {"binary_data_size": 3}}]})";
    done({.status = 200,
          .headers = {{"Inference-Header-Content-Length", std::to_string(head.size())}},
          .body = head + "abc"});
  });
  grpc::ClientContext context;
  client.prepare(context);
  const auto stream = client.stub().ModelStreamInfer(&context);
  const std::vector<std::string> models = {"vit", "none", "a/b", "vit"};
  for (size_t i = 0; i < models.size(); ++i) {
    pb::ModelInferRequest request;
    request.set_model_name(models[i]);
    request.set_id(std::to_string(i));
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  const std::vector<std::string> errors = {"", "no such model", "no /", ""};
  pb::ModelStreamInferResponse response;
  for (size_t i = 0; i < models.size(); ++i) {
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_THAT(response.error_message(), HasSubstr(errors[i]));
    EXPECT_EQ(response.infer_response().raw_output_contents_size(), errors[i].empty() ? 1 : 0);
  }
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace fovea::serve
