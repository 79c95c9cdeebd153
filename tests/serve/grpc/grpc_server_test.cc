#include "fovea/serve/grpc/grpc_server.h"

#include <gmock/gmock.h>

#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "tests/serve/grpc/function_handler.h"
#include "tests/support/temp_dir.h"

namespace fovea::serve {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

// A module without gRPC: calls are the test's own.
struct FakeServer {
  GrpcModuleOptions options;
  std::string address, certificate;
  GrpcHost host;
};
FakeServer* last_started = nullptr;

void* start_fake(const GrpcModuleOptions* options, GrpcHost host, int* port) {
  last_started =
      new FakeServer{.options = *options,
                     .address = options->address,
                     .certificate = options->certificate == nullptr ? "" : options->certificate,
                     .host = host};
  *port = 7;
  return last_started;
}
bool drain_fake(void*, int64_t milliseconds) { return milliseconds > 0; }
void stop_fake(void* server) { delete static_cast<FakeServer*>(server); }

const GrpcModule kFakeModule = {
    .version = FOVEA_VERSION, .start = start_fake, .drain = drain_fake, .stop = stop_fake};

struct Reply {
  int status = 0;
  std::string body;
  int64_t json_length = -2;
  int count = 0;
};

void keep_reply(void* call, const GrpcReply* reply) {
  auto& kept = *static_cast<Reply*>(call);
  kept.status = reply->status;
  kept.body.assign(reply->body.data, reply->body.size);
  kept.json_length = reply->json_length;
  ++kept.count;
}

GrpcBytes bytes_of(const std::string& text) { return {text.data(), text.size()}; }

class GrpcServerTest : public ::testing::Test {
 protected:
  void start(FunctionHandler::Function function) {
    handler_.emplace(std::move(function));
    server_.emplace(options_, *handler_, kFakeModule);
  }

  // The reply, which may come later.
  Reply& ask(const std::string& path, const std::vector<std::string>& parts = {},
             const std::string& authorization = {}, int64_t time = 1000, int64_t json_length = -1) {
    std::vector<GrpcBytes> body;
    for (const auto& part : parts) body.push_back(bytes_of(part));
    const std::string method = "POST", id = "call-1";
    const GrpcRequest request{.method = bytes_of(method),
                              .path = bytes_of(path),
                              .authorization = bytes_of(authorization),
                              .id = bytes_of(id),
                              .body = body.data(),
                              .num_parts = body.size(),
                              .json_length = json_length,
                              .milliseconds = time};
    auto& reply = replies_.emplace_back();
    last_started->host.handle(last_started->host.self, &request, keep_reply, &reply);
    return reply;
  }

  // The reply where nobody may ask so; else there is none.
  Reply& admit(const std::string& path, const std::string& authorization) {
    const GrpcRequest head{.method = {},
                           .path = bytes_of(path),
                           .authorization = bytes_of(authorization),
                           .id = {},
                           .body = nullptr,
                           .num_parts = 0,
                           .json_length = -1,
                           .milliseconds = 0};
    auto& reply = replies_.emplace_back();
    last_started->host.admit(last_started->host.self, &head, keep_reply, &reply);
    return reply;
  }

  std::string config_error() {
    try {
      start([](HttpRequest&&, const HttpHandler::Done&) {});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "none";
  }

  support::TempDir folder_;
  std::deque<Reply> replies_;
  HttpServerOptions options_;
  std::optional<FunctionHandler> handler_;
  std::optional<GrpcServer> server_;
};

TEST_F(GrpcServerTest, HandsACallOnAsARequest) {
  HttpRequest asked;
  start([&](HttpRequest&& request, const HttpHandler::Done& done) {
    asked = request;
    done(
        {.status = 200, .headers = {{"Inference-Header-Content-Length", "2"}}, .body = "{}tensor"});
  });
  const auto& reply = ask("/v2/models/m/infer", {"head", "", "tensor"}, "", 1000, 4);
  EXPECT_EQ(asked.method, "POST");
  EXPECT_EQ(asked.path, "/v2/models/m/infer");
  EXPECT_EQ(asked.body, "headtensor");
  EXPECT_EQ(asked.id, "call-1");
  EXPECT_THAT(asked.headers,
              ::testing::Contains(std::pair("inference-header-content-length", "4")));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "{}tensor");
  EXPECT_EQ(reply.json_length, 2);
}

TEST_F(GrpcServerTest, WaitsAsLongAsTheClientAndTheServerDo) {
  options_.limits.answer_time = milliseconds(5000);
  std::vector<milliseconds> times;
  start([&](HttpRequest&& request, const HttpHandler::Done& done) {
    times.push_back(
        std::chrono::round<milliseconds>(request.deadline - std::chrono::steady_clock::now()));
    done({});
  });
  ask("/", {}, "", 2000);
  ask("/", {}, "", 1'000'000'000);
  EXPECT_LE(times[0], milliseconds(2000));
  EXPECT_GT(times[1], milliseconds(2000));
  EXPECT_LE(times[1], milliseconds(5000));
}

TEST_F(GrpcServerTest, WantsTheKeyThatHttpWants) {
  options_.bearer_file = folder_.write("keys", std::string("0123456789abcdef0123456789abcdef\n"));
  options_.open_paths = {"/v2/health/live"};
  start([](HttpRequest&&, const HttpHandler::Done& done) { done({}); });
  EXPECT_EQ(ask("/v2").status, 401);
  EXPECT_EQ(ask("/v2", {}, "Bearer 0123456789abcdef0123456789abcdeX").status, 401);
  EXPECT_EQ(ask("/v2", {}, "Bearer 0123456789abcdef0123456789abcdef").status, 200);
  EXPECT_EQ(ask("/v2/health/live").status, 200);
}

TEST_F(GrpcServerTest, WantsTheKeyBeforeTheMessage) {
  options_.bearer_file = folder_.write("keys", std::string("0123456789abcdef0123456789abcdef\n"));
  options_.open_paths = {"/v2/health/live"};
  int num_asked = 0;
  start([&](HttpRequest&&, const HttpHandler::Done&) { ++num_asked; });
  const auto& refused = admit("/v2", "Bearer 0123456789abcdef0123456789abcdeX");
  EXPECT_EQ(refused.status, 401);
  EXPECT_THAT(refused.body, HasSubstr("expected the header"));
  EXPECT_EQ(admit("/v2", "Bearer 0123456789abcdef0123456789abcdef").count, 0);
  EXPECT_EQ(admit("/v2/health/live", "").count, 0);
  EXPECT_EQ(num_asked, 0);
}

TEST_F(GrpcServerTest, AnswersEachCallOnce) {
  HttpHandler::Done kept;
  start([&](HttpRequest&& request, HttpHandler::Done done) {
    if (request.path == "/never") return;
    if (request.path == "/later") {
      kept = std::move(done);
      return;
    }
    if (request.path == "/twice") done({.status = 201, .headers = {}, .body = {}});
    throw std::runtime_error("secret of the request");
  });
  EXPECT_EQ(ask("/never").status, 500);
  const auto& twice = ask("/twice");
  EXPECT_EQ(twice.status, 201);
  EXPECT_EQ(twice.count, 1);
  const auto& thrown = ask("/throws");
  EXPECT_EQ(thrown.status, 500);
  EXPECT_THAT(thrown.body, HasSubstr("call-1"));
  EXPECT_THAT(thrown.body, Not(HasSubstr("secret")));
  EXPECT_EQ(ask("/later").count, 0);
}

TEST_F(GrpcServerTest, HoldsNoMoreBodiesThanItMay) {
  options_.limits.all_bodies_bytes = 1000;
  std::vector<HttpHandler::Done> waiting;
  start([&](HttpRequest&& request, HttpHandler::Done done) {
    if (request.path == "/wait") return waiting.push_back(std::move(done));
    done({});
  });
  const std::string large(600, 'x');
  const auto& waits = ask("/wait", {large});
  EXPECT_EQ(ask("/now", {large}).status, 503);
  waiting.front()({});
  waiting.clear();
  EXPECT_EQ(waits.status, 200);
  EXPECT_EQ(ask("/now", {large}).status, 200);
}

TEST_F(GrpcServerTest, TellsTheModuleWhereToListenAndWhatToTake) {
  options_.host = "::1";
  options_.port = 8001;
  options_.tls_certificate = folder_.write("cert", std::string("certificate"));
  options_.tls_key = folder_.write("key", std::string("key"));
  start([](HttpRequest&&, const HttpHandler::Done&) {});
  EXPECT_EQ(last_started->address, "[::1]:8001");
  EXPECT_EQ(last_started->certificate, "certificate");
  EXPECT_EQ(last_started->options.message_bytes, 128 << 20);
  EXPECT_EQ(last_started->options.message_milliseconds, 30'000 + 128 * 16 * 1000);
  EXPECT_EQ(last_started->options.answer_milliseconds, 60000);
  EXPECT_EQ(server_->port(), 7);
  EXPECT_TRUE(server_->drain(milliseconds(1)));
  EXPECT_FALSE(server_->drain(milliseconds(0)));
}

TEST_F(GrpcServerTest, RefusesAddressesThatOthersReachWithoutAKey) {
  options_.host = "0.0.0.0";
  EXPECT_THAT(config_error(), HasSubstr("--bearer-file"));
}

TEST_F(GrpcServerTest, SaysWhereItCannotListen) {
  auto module = kFakeModule;
  module.start = [](const GrpcModuleOptions*, GrpcHost, int*) -> void* { return nullptr; };
  FunctionHandler handler([](HttpRequest&&, const HttpHandler::Done&) {});
  options_.port = 99;
  try {
    const GrpcServer server(options_, handler, module);
    ADD_FAILURE() << "it listens";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("port 99 of 127.0.0.1 cannot be listened on"));
  }
}

}  // namespace
}  // namespace fovea::serve
