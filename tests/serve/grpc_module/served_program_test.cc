// The module in the program, beside libtorch.
#include "tests/serve/grpc_module/served_program.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/grpc_module/grpc_client.h"
#include "tests/serve/http/raw_client.h"
#include "tests/support/temp_dir.h"

namespace fovea::serve {
namespace {

using testing::GrpcClient;
using ::testing::HasSubstr;
using testing::ServedProgram;
using Stub = GrpcClient::Stub;
namespace pb = ::inference;

// One program for all tests; what its linker has bound to what is in a file.
class GrpcProgramTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<support::TempDir>();
    program_ = std::make_unique<ServedProgram>(
        std::vector<std::string>{"--model-control"},
        std::vector<std::string>{"LD_DEBUG=bindings", "LD_DEBUG_OUTPUT=" + bindings_file()});
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(program_->stop(), 0);
    program_.reset();
    folder_.reset();
  }
  static std::string bindings_file() { return folder_->path() + "/bindings"; }

  static std::unique_ptr<support::TempDir> folder_;
  static std::unique_ptr<ServedProgram> program_;
  GrpcClient client_{program_->grpc_port};
};

std::unique_ptr<support::TempDir> GrpcProgramTest::folder_;
std::unique_ptr<ServedProgram> GrpcProgramTest::program_;

// [n, 3, 32, 32]
std::vector<float> pixels_of(int64_t n) {
  std::vector<float> pixels(static_cast<size_t>(n * 3 * 32 * 32));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 97) / 50 - 1;
  return pixels;
}

std::string bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

pb::ModelInferRequest tensor_request(int64_t n) {
  pb::ModelInferRequest request;
  request.set_model_name("tiny");
  auto& input = *request.add_inputs();
  input.set_name("tensor");
  input.set_datatype("FP32");
  for (const int64_t side : {n, int64_t{3}, int64_t{32}, int64_t{32}}) input.add_shape(side);
  return request;
}

// Of the output `scores`.
std::string scores_over_http(int64_t port, int64_t n) {
  const auto pixels = bytes_of(pixels_of(n));
  const nlohmann::json head = {
      {"inputs",
       {{{"name", "tensor"},
         {"datatype", "FP32"},
         {"shape", {n, 3, 32, 32}},
         {"parameters", {{"binary_data_size", pixels.size()}}}}}},
      {"outputs", {{{"name", "scores"}, {"parameters", {{"binary_data", true}}}}}}};
  const auto text = head.dump();
  RawClient client(port);
  const auto response = client.ask(
      "POST /v2/models/tiny/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: " +
      std::to_string(text.size()) + "\r\nContent-Length: " +
      std::to_string(text.size() + pixels.size()) + "\r\n\r\n" + text + pixels);
  EXPECT_EQ(response.status, 200) << response.body;
  const auto size = static_cast<size_t>(n) * 4 * sizeof(float);
  return response.body.substr(response.body.size() - size);
}

TEST_F(GrpcProgramTest, AnswersWithTheBitsOfHttp) {
  auto request = tensor_request(2);
  request.add_raw_input_contents(bytes_of(pixels_of(2)));
  pb::ModelInferResponse raw, typed;
  const auto status = client_.call(&Stub::ModelInfer, request, raw);
  ASSERT_TRUE(status.ok()) << status.error_message();
  request.clear_raw_input_contents();
  for (const float number : pixels_of(2))
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(number);
  ASSERT_TRUE(client_.call(&Stub::ModelInfer, request, typed).ok());
  EXPECT_EQ(raw.model_name(), "tiny");
  EXPECT_EQ(raw.outputs(0).name(), "scores");
  ASSERT_EQ(raw.raw_output_contents(0).size(), 2 * 4 * sizeof(float));
  EXPECT_EQ(raw.raw_output_contents(0), typed.raw_output_contents(0));
  EXPECT_EQ(raw.raw_output_contents(0), scores_over_http(program_->http_port, 2));
}

TEST_F(GrpcProgramTest, TellsOfItsModels) {
  pb::ServerMetadataResponse server;
  ASSERT_TRUE(client_.call(&Stub::ServerMetadata, {}, server).ok());
  EXPECT_EQ(server.name(), "fovea");
  pb::ModelMetadataRequest model;
  pb::ModelMetadataResponse metadata;
  model.set_name("tiny");
  ASSERT_TRUE(client_.call(&Stub::ModelMetadata, model, metadata).ok());
  ASSERT_EQ(metadata.inputs_size(), 2);
  EXPECT_EQ(metadata.inputs(1).shape(3), 32);
  pb::ModelConfigRequest asked;
  pb::ModelConfigResponse response;
  asked.set_name("tiny");
  ASSERT_TRUE(client_.call(&Stub::ModelConfig, asked, response).ok());
  const auto& config = response.config();
  EXPECT_EQ(config.max_batch_size(), 8);
  EXPECT_EQ(config.input(0).data_type(), pb::TYPE_STRING);
  EXPECT_EQ(config.dynamic_batching().default_queue_policy().max_queue_size(), 128);
  EXPECT_FALSE(config.parameters().at("outputs_on_request").string_value().empty());
}

TEST_F(GrpcProgramTest, SaysWhatIsWrongWithARequest) {
  pb::ModelInferResponse response;
  auto request = tensor_request(1);
  request.add_raw_input_contents("1234");
  auto status = client_.call(&Stub::ModelInfer, request, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("expected 12288"));
  request.set_model_name("tinny");
  status = client_.call(&Stub::ModelInfer, request, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("tiny"));
}

TEST_F(GrpcProgramTest, LoadsUnloadsAndCounts) {
  pb::RepositoryModelUnloadRequest unload;
  pb::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("tiny");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(false);
  ASSERT_TRUE(client_.call(&Stub::RepositoryModelUnload, unload, unloaded).ok());
  pb::ModelReadyRequest asked;
  pb::ModelReadyResponse ready;
  asked.set_name("tiny");
  ASSERT_TRUE(client_.call(&Stub::ModelReady, asked, ready).ok());
  EXPECT_FALSE(ready.ready());
  pb::RepositoryModelLoadRequest load;
  pb::RepositoryModelLoadResponse loaded;
  load.set_model_name("tiny");
  ASSERT_TRUE(client_.call(&Stub::RepositoryModelLoad, load, loaded).ok());
  ASSERT_TRUE(client_.call(&Stub::ModelReady, asked, ready).ok());
  EXPECT_TRUE(ready.ready());
  auto request = tensor_request(1);
  request.add_raw_input_contents(bytes_of(pixels_of(1)));
  pb::ModelInferResponse response;
  ASSERT_TRUE(client_.call(&Stub::ModelInfer, request, response).ok());
  pb::ModelStatisticsResponse statistics;
  ASSERT_TRUE(client_.call(&Stub::ModelStatistics, {}, statistics).ok());
  ASSERT_EQ(statistics.model_stats_size(), 1);
  EXPECT_GE(statistics.model_stats(0).inference_stats().success().count(), 1U);
}

struct Binding {
  std::string from, to, symbol;
};

// "123: binding file A [0] to B [0]: normal symbol `S' [V]"; names without their folders.
std::optional<Binding> binding_of(const std::string& line) {
  const auto between = [&](const char* before, const char* after) {
    const auto start = line.find(before);
    if (start == std::string::npos) return std::string();
    const auto end = line.find(after, start + std::strlen(before));
    return line.substr(start + std::strlen(before), end - start - std::strlen(before));
  };
  const auto name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  Binding binding{.from = name(between("binding file ", " [")),
                  .to = name(between("] to ", " [")),
                  .symbol = between("symbol `", "'")};
  if (binding.from.empty() || binding.to.empty()) return std::nullopt;
  return binding;
}

bool is_of_torch(const std::string& library) {
  return library.starts_with("libtorch") || library.starts_with("libc10");
}

// A tag of libstdc++'s that is one in a process, by its very type of symbol.
constexpr const char* kSharedTag = "_ZZNSt19_Sp_make_shared_tag5_S_tiEvE5__tag";

// Those that are there for the module alone.
bool is_of_grpc(const std::string& library) {
  for (const char* name :
       {"libfovea_grpc", "libgrpc", "libgpr", "libprotobuf", "libabsl", "libupb"}) {
    if (library.starts_with(name)) return true;
  }
  return false;
}

// libtorch exports another protobuf: some names of its templates are the same.
TEST_F(GrpcProgramTest, NothingOfGrpcIsBoundToLibtorchNorTheOtherWay) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers cannot bear libraries with names of their own";
#endif
  std::ifstream file(bindings_file() + "." + std::to_string(program_->process()));
  std::set<std::string> of_grpc;
  int64_t num_protobuf = 0, num_torch = 0;
  for (std::string line; std::getline(file, line);) {
    const auto binding = binding_of(line);
    if (!binding) continue;
    const auto& [from, to, symbol] = *binding;
    num_torch += is_of_torch(from) && is_of_torch(to);
    if (!is_of_grpc(from) && !is_of_grpc(to)) continue;
    of_grpc.insert(from);
    num_protobuf += symbol.find("8protobuf") != std::string::npos && to.starts_with("libprotobuf");
    if (symbol == kSharedTag) continue;
    EXPECT_FALSE(is_of_torch(from) || is_of_torch(to) || to == "fovea") << line;
  }
  EXPECT_GT(num_torch, 1000);  // so the file has what it should
  EXPECT_GT(num_protobuf, 1000);
  EXPECT_TRUE(of_grpc.contains("libfovea_grpc.so"));
}

// What was taken is answered; what comes later is told so, and no call ends in another way.
TEST(GrpcProgramStopTest, LosesNoRequestWhenItIsToldToStop) {
  ServedProgram program;
  std::atomic<int> num_answered = 0, num_refused = 0, num_lost = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      GrpcClient client(program.grpc_port);
      auto request = tensor_request(1);
      request.add_raw_input_contents(bytes_of(pixels_of(1)));
      for (;;) {
        pb::ModelInferResponse response;
        const auto status = client.call(&Stub::ModelInfer, request, response);
        if (status.error_code() == grpc::StatusCode::UNAVAILABLE) return void(++num_refused);
        if (!status.ok()) {
          ADD_FAILURE() << status.error_code() << ' ' << status.error_message();
          return void(++num_lost);
        }
        ++num_answered;
      }
    });
  }
  while (num_answered < 50 && num_lost == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(program.stop(), 0);
  for (auto& client : clients) client.join();
  EXPECT_EQ(num_lost, 0);
  EXPECT_EQ(num_refused, 4);
}

}  // namespace
}  // namespace fovea::serve
