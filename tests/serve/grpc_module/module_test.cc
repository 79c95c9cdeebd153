// What a client may take, how the server ends, and who is let in.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/serve/grpc_module/module_fixture.h"
#include "tests/serve/http/raw_client.h"
#include "tests/serve/http/test_certificate.h"
#include "tests/support/temp_dir.h"

namespace fovea::serve {
namespace {

using std::chrono::milliseconds;
using testing::GrpcClient;
using ::testing::HasSubstr;
using testing::json_answer;
using Stub = GrpcClient::Stub;
namespace pb = ::inference;

class GrpcModuleTest : public testing::GrpcModuleFixture {
 protected:
  support::TempDir folder_;
};

// HTTP/2's; stream 0: the connection.
std::string http2_frame(char type, char flags, char stream, const std::string& payload) {
  const auto size = payload.size();
  return std::string{static_cast<char>(size >> 16),
                     static_cast<char>(size >> 8),
                     static_cast<char>(size),
                     type,
                     flags,
                     0,
                     0,
                     0,
                     stream} +
         payload;
}

// A call up to the middle of its message.
std::string half_a_call(const std::string& path) {
  const auto text = [](const std::string& of) { return static_cast<char>(of.size()) + of; };
  const std::string headers = "\x83\x86\x04" + text(path) + "\x01" + text("test") +  // POST, http
                              "\x0f\x10" + text("application/grpc") + std::string(1, '\0') +
                              text("te") + text("trailers");
  const std::string message = std::string("\0\0\0\3\xe8", 5) + "ten bytes.";  // of 1000
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frame(/*SETTINGS*/ 4, 0, 0, "") +
         http2_frame(/*HEADERS*/ 1, /*END_HEADERS*/ 4, 1, headers) +
         http2_frame(/*DATA*/ 0, 0, 1, message);
}

TEST_F(GrpcModuleTest, WaitsForNoAnswerLongerThanItMay) {
  options_.limits.answer_time = milliseconds(50);
  std::vector<HttpHandler::Done> kept;
  auto& client =
      start([&](HttpRequest&&, HttpHandler::Done done) { kept.push_back(std::move(done)); });
  pb::ModelInferResponse response;
  const auto status = client.call(&Stub::ModelInfer, {}, response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("no answer in time"));
  kept.front()({});  // too late: nobody is there any more
  client.patience = milliseconds(20);
  EXPECT_EQ(client.call(&Stub::ModelInfer, {}, response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(GrpcModuleTest, HoldsClientsToTheirLimits) {
  options_.limits.body_bytes = 1 << 20;
  auto& client = start(json_answer(R"({"outputs": []})"));
  pb::ModelInferRequest request;
  request.add_inputs()->set_datatype("BYTES");
  request.add_raw_input_contents(std::string((1 << 20) + 1, 'x'));
  pb::ModelInferResponse response;
  EXPECT_EQ(client.call(&Stub::ModelInfer, request, response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  request.set_raw_input_contents(0, std::string(1 << 19, 'x'));
  EXPECT_TRUE(client.call(&Stub::ModelInfer, request, response).ok());
  client.compression = GRPC_COMPRESS_GZIP;
  EXPECT_EQ(client.call(&Stub::ModelInfer, request, response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GrpcModuleTest, EndsCallsWhoseMessageComesTooSlowly) {
  options_.limits.body_bytes = 1 << 10;
  options_.limits.body_time = milliseconds(300);
  std::atomic<bool> is_slow = true;
  auto& client = start([&](HttpRequest&&, const HttpHandler::Done& done) {
    // The server's own time does not count.
    if (is_slow.exchange(false)) std::this_thread::sleep_for(milliseconds(400));
    done({.status = 200, .headers = {}, .body = R"({"outputs": []})"});
  });
  std::deque<RawClient> clients;
  for (const char* method : {"ModelInfer", "ModelStreamInfer", "ServerLive"}) {
    clients.emplace_back(server_->port());
    clients.back().send(half_a_call(std::string("/inference.GRPCInferenceService/") + method));
  }
  for (auto& half : clients)
    EXPECT_THAT(half.receive_until("too slowly"), HasSubstr("message came too slowly"));
  pb::ModelInferResponse response;
  EXPECT_TRUE(client.call(&Stub::ModelInfer, {}, response).ok());
  grpc::ClientContext context;
  client.prepare(context);
  const auto stream = client.stub().ModelStreamInfer(&context);
  pb::ModelStreamInferResponse one;
  ASSERT_TRUE(stream->Write(pb::ModelInferRequest()));
  ASSERT_TRUE(stream->Read(&one));
  EXPECT_FALSE(stream->Read(&one));  // after the client's silence
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(GrpcModuleTest, TakesNoCallWithoutAMessageOfItsKind) {
  auto& client = start(json_answer("{}"));
  grpc::GenericStub stub(client.channel());
  for (const char* text : {"no message", ""}) {
    const std::string message = text;
    grpc::ClientContext context;
    client.prepare(context);
    grpc::CompletionQueue queue;
    const auto call =
        stub.PrepareCall(&context, "/inference.GRPCInferenceService/ModelInfer", &queue);
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool is_done = false;
      return queue.Next(&tag, &is_done) && is_done;
    };
    call->StartCall(nullptr);
    ASSERT_TRUE(wait());
    if (!message.empty()) {
      const grpc::Slice slice(message);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      ASSERT_TRUE(wait());
    }
    call->WritesDone(nullptr);
    wait();
    grpc::Status status;
    call->Finish(&status, nullptr);
    ASSERT_TRUE(wait());
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << message;
    EXPECT_THAT(status.error_message(), HasSubstr("expected one")) << message;
  }
}

TEST_F(GrpcModuleTest, HoldsNoMoreMessagesThanItMay) {
  options_.limits.body_bytes = 2 << 20;
  options_.limits.all_bodies_bytes = 4 << 20;
  std::promise<void> all_sent;
  const auto is_released = all_sent.get_future().share();
  std::vector<std::thread> holders;
  std::mutex mutex;
  start([&](HttpRequest&&, const HttpHandler::Done& done) {
    const std::lock_guard lock(mutex);
    holders.emplace_back([done, is_released] {
      is_released.wait();
      done({.status = 200, .headers = {}, .body = R"({"outputs": []})"});
    });
  });
  pb::ModelInferRequest request;
  request.add_inputs()->set_datatype("BYTES");
  request.add_raw_input_contents(std::string(1 << 20, 'x'));
  std::atomic<int> num_answered = 0, num_refused = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      GrpcClient client(server_->port());
      pb::ModelInferResponse response;
      const auto status = client.call(&Stub::ModelInfer, request, response);
      ++(status.ok() ? num_answered : num_refused);
      if (!status.ok()) {
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
      }
    });
  }
  while (num_refused < 3) std::this_thread::sleep_for(milliseconds(1));
  all_sent.set_value();
  for (auto& client : clients) client.join();
  EXPECT_EQ(num_answered, 3);
  pb::ModelInferResponse response;
  const auto status = client_->call(&Stub::ModelInfer, request, response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  server_.reset();  // no more handlers
  for (auto& holder : holders) holder.join();
}

TEST_F(GrpcModuleTest, FinishesWhatItTookBeforeItStops) {
  std::promise<HttpHandler::Done> taken;
  auto& client =
      start([&](HttpRequest&&, HttpHandler::Done done) { taken.set_value(std::move(done)); });
  grpc::Status status;
  std::thread asks([&] {
    pb::RepositoryModelLoadResponse response;
    status = client.call(&Stub::RepositoryModelLoad, {}, response);
  });
  const auto done = taken.get_future().get();
  auto drained =
      std::async(std::launch::async, [&] { return server_->drain(milliseconds(20'000)); });
  EXPECT_EQ(drained.wait_for(milliseconds(50)), std::future_status::timeout);
  pb::ModelInferResponse refused;
  EXPECT_EQ(client.call(&Stub::ModelInfer, {}, refused).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  done({});
  asks.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(drained.get());
}

TEST_F(GrpcModuleTest, EndsStreamsThatSayNothing) {
  options_.limits.linger_time = milliseconds(50);
  auto& client = start(json_answer("{}"));
  grpc::ClientContext context;
  client.prepare(context);
  const auto stream = client.stub().ModelStreamInfer(&context);
  pb::ModelInferRequest request;
  pb::ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_TRUE(server_->drain(milliseconds(20'000)));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

TEST_F(GrpcModuleTest, TakesAKeyThroughTls) {
  const auto key = make_key();
  options_.tls_key = folder_.file("key.pem");
  options_.tls_certificate = folder_.file("cert.pem");
  write_key(key.get(), options_.tls_key);
  write_certificate(key.get(), options_.tls_certificate);
  options_.bearer_file = folder_.write("keys", std::string("0123456789abcdef0123456789abcdef\n"));
  start(json_answer(R"({"name": "fovea"})"));
  grpc::SslCredentialsOptions trusted;
  trusted.pem_root_certs = read_file(options_.tls_certificate, 1 << 20);
  GrpcClient client(server_->port(), grpc::SslCredentials(trusted));
  pb::ServerMetadataResponse response;
  EXPECT_EQ(client.call(&Stub::ServerMetadata, {}, response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  client.metadata["authorization"] = "Bearer 0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(client.call(&Stub::ServerMetadata, {}, response).ok());
  EXPECT_EQ(response.name(), "fovea");
  GrpcClient plain(server_->port());
  EXPECT_EQ(plain.call(&Stub::ServerMetadata, {}, response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

// Who has no key is told so without a byte of a message.
TEST_F(GrpcModuleTest, WantsTheKeyBeforeTheMessage) {
  options_.bearer_file = folder_.write("keys", std::string("0123456789abcdef0123456789abcdef\n"));
  options_.open_paths = {"/v2/health/live"};
  auto& client = start(json_answer("{}"));
  const auto status_of_silent_call = [&] {
    grpc::ClientContext context;
    client.prepare(context);
    return client.stub().ModelStreamInfer(&context)->Finish();
  };
  const auto status = status_of_silent_call();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(status.error_message(), HasSubstr("Bearer KEY"));
  pb::ServerLiveResponse live;
  EXPECT_TRUE(client.call(&Stub::ServerLive, {}, live).ok());
  client.metadata["authorization"] = "Bearer 0123456789abcdef0123456789abcdef";
  client.patience = milliseconds(50);
  EXPECT_EQ(status_of_silent_call().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(GrpcModuleTest, ListensOnNoPortThatIsInUse) {
  start(json_answer("{}"));
  options_.port = server_->port();
  EXPECT_THROW(GrpcServer(options_, *handler_, *fovea_grpc_module()), ConfigError);
}

}  // namespace
}  // namespace fovea::serve
