#include "fovea/serve/inference_api.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "fovea/core/files.h"
#include "fovea/inference/predictor.h"
#include "fovea/serve/served_model.h"
#include "tests/serve/served.h"
#include "tests/support/close.h"

namespace fovea::serve {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const json kBinary = {{"parameters", {{"binary_data_output", true}}}};

json binary_output(const std::string& name) {
  return {{"outputs", {{{"name", name}, {"parameters", {{"binary_data", true}}}}}}};
}

// float32 numbers of a binary output.
std::vector<float> floats_of(const HttpResponse& response, const std::string& name) {
  const auto bytes = binary_of(response, name);
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::vector<float> floats_of(const at::Tensor& tensor) {
  const auto dense = tensor.contiguous();
  return {dense.const_data_ptr<float>(), dense.const_data_ptr<float>() + dense.numel()};
}

// One model, "tiny", of 4 classes with names.
struct TinyServer {
  explicit TinyServer(const ServeOptions& options)
      : models(options), api(models, {.server_version = "1.2.3", .model_control = true}) {
    ::testing::internal::CaptureStderr();  // of step-0 weights
    source = source_of(folder, train::testing::tiny_config(folder), "tiny");
    const auto names = folder.file("names.txt");
    std::ofstream(names) << "rose\ntulip\ndaisy\nlily\n";
    source.options.class_names = names;
    models.add(source);
    models.load("tiny");
    ::testing::internal::GetCapturedStderr();
  }

  // The same model, loaded as `fovea predict` does it.
  inference::Predictor predictor() const {
    ::testing::internal::CaptureStderr();
    inference::Predictor loaded(source.target, source.options);
    ::testing::internal::GetCapturedStderr();
    return loaded;
  }

  Folder folder;
  ModelSource source;
  ModelRepository models;
  InferenceApi api;
};

class ApiTest : public ::testing::Test {
 protected:
  explicit ApiTest(TinyServer& server) : models_(server.models), api_(server.api) {}

  HttpResponse get(const std::string& path) { return ask(api_, request_to(path)); }
  static std::vector<inference::Input> encoded(const std::vector<std::string>& files) {
    std::vector<inference::Input> inputs;
    for (const auto& file : files)
      inputs.push_back({inference::EncodedInput{{file.begin(), file.end()}}});
    return inputs;
  }

  ModelRepository& models_;
  InferenceApi& api_;
};

// What these tests ask changes nothing of the server that they share.
class InferenceApiTest : public ApiTest {
 protected:
  InferenceApiTest() : ApiTest(*server_) {}
  static void SetUpTestSuite() {
    server_ = std::make_unique<TinyServer>(ServeOptions{.max_batch_size = 4});
    predictor_ = server_->predictor();
  }
  static void TearDownTestSuite() {
    predictor_.reset();
    server_.reset();
  }

  static inline std::optional<inference::Predictor> predictor_;

 private:
  static inline std::unique_ptr<TinyServer> server_;
};

struct OwnServer {
  TinyServer server;
};

class OwnServerTest : protected OwnServer, public ApiTest {
 protected:
  explicit OwnServerTest(const ServeOptions& options = {.max_batch_size = 4})
      : OwnServer{TinyServer(options)}, ApiTest(server) {}
};

TEST_F(InferenceApiTest, SaysWhatTheServerIs) {
  EXPECT_EQ(get("/v2/health/live").status, 200);
  EXPECT_EQ(get("/v2/health/ready").status, 200);
  const auto server = json_of(get("/v2"));
  EXPECT_EQ(server["name"], "fovea");
  EXPECT_EQ(server["version"], "1.2.3");
  EXPECT_THAT(server["extensions"].get<std::vector<std::string>>(),
              ::testing::IsSupersetOf(
                  {"binary_tensor_data", "classification", "statistics", "model_repository"}));
  EXPECT_EQ(get("/v2/").status, 200);
}

TEST_F(InferenceApiTest, SaysWhatAModelTakesAndGives) {
  const auto model = json_of(get("/v2/models/tiny/versions/1"));
  EXPECT_EQ(model, json_of(get("/v2/models/tiny")));
  EXPECT_EQ(model["versions"], json({"1"}));
  EXPECT_EQ(model["inputs"],
            json::parse(R"([{"name": "image", "datatype": "BYTES", "shape": [-1, 1]},
      {"name": "tensor", "datatype": "FP32", "shape": [-1, 1, 8, 8]}])"));
  EXPECT_EQ(model["outputs"],
            json::parse(R"([{"name": "scores", "datatype": "FP32", "shape": [-1, 4]},
      {"name": "labels", "datatype": "BYTES", "shape": [-1, 1]}])"));
  const auto config = json_of(get("/v2/models/tiny/config"));
  EXPECT_EQ(config["max_batch_size"], 4);
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_STRING");
  EXPECT_EQ(config["output"][0],
            json::parse(R"({"name": "scores", "data_type": "TYPE_FP32", "dims": [4]})"));
  EXPECT_EQ(config["dynamic_batching"]["preferred_batch_size"], json({4}));
  EXPECT_EQ(get("/v2/models/tiny/ready").status, 200);
  EXPECT_EQ(get("/v2/models/tiny/versions/2/ready").status, 400);
  EXPECT_EQ(get("/v2/models/none/ready").status, 400);
}

TEST_F(InferenceApiTest, AnswersAreThePredictorsBitForBit) {
  const std::vector<std::string> files = {png_bytes(0), png_bytes(40), png_bytes(90)};
  auto expected = predictor_->classes(encoded(files));
  const auto response = ask(api_, images_request("tiny", files, kBinary));
  ASSERT_EQ(response.status, 200) << error_of(response);
  std::vector<float> scores;
  std::vector<std::string> labels;
  for (auto& one : expected) {
    const auto row = floats_of(one.get().scores);
    scores.insert(scores.end(), row.begin(), row.end());
    labels.push_back(
        predictor_->loaded().class_name(inference::best(one.get().scores, 1)[0].label));
  }
  EXPECT_EQ(floats_of(response, "scores"), scores);
  EXPECT_EQ(binary_of(response, "labels"), bytes_tensor(labels));
  EXPECT_EQ(output_of(response, "scores")["shape"], json({3, 4}));
  // JSON holds the same numbers.
  const auto as_json = ask(api_, images_request("tiny", files));
  EXPECT_EQ(output_of(as_json, "scores")["data"].get<std::vector<float>>(), scores);
  EXPECT_EQ(output_of(as_json, "labels")["data"].get<std::vector<std::string>>(), labels);
}

// What an image's neighbours in a batch do to its numbers: roundings of another order of sums.
TEST_F(InferenceApiTest, BatchesOfAnySizeAgree) {
  const std::vector<std::string> files = {png_bytes(0), png_bytes(40), png_bytes(90), png_bytes(5)};
  const auto scores = [&](const std::vector<std::string>& asked) {
    const auto numbers = floats_of(ask(api_, images_request("tiny", asked, kBinary)), "scores");
    return at::tensor(numbers).view({-1, 4});
  };
  const auto together = scores(files);
  ASSERT_EQ(together.size(0), 4);
  for (int64_t i = 0; i < 4; ++i) {
    support::expect_close(scores({files[static_cast<size_t>(i)]})[0], together[i], at::kFloat,
                          "scores");
  }
}

TEST_F(InferenceApiTest, TensorsAreTakenAsTheyAre) {
  const auto images = support::random({2, 1, 8, 8}, at::kFloat, 3);
  auto expected = predictor_->classes({{images[0]}, {images[1]}});
  const json input = {{"name", "tensor"}, {"datatype", "FP32"}, {"shape", {2, 1, 8, 8}}};
  const auto response =
      ask(api_, infer_of("tiny", input, number_bytes(floats_of(images)), kBinary));
  ASSERT_EQ(response.status, 200) << error_of(response);
  EXPECT_EQ(floats_of(response, "scores"),
            floats_of(at::stack({expected[0].get().scores, expected[1].get().scores})));
  // bfloat16 is what it stands for in float32.
  const auto halves = images.to(at::kBFloat16);
  auto of_halves = predictor_->classes({{halves[0].to(at::kFloat)}});
  const json half_input = {{"name", "tensor"}, {"datatype", "BF16"}, {"shape", {1, 1, 8, 8}}};
  const auto* bytes = static_cast<const char*>(halves.const_data_ptr());
  const auto of_half = ask(api_, infer_of("tiny", half_input, std::string(bytes, 128), kBinary));
  EXPECT_EQ(floats_of(of_half, "scores"), floats_of(of_halves[0].get().scores));
}

TEST_F(InferenceApiTest, ClassificationGivesTheBestClasses) {
  const auto file = png_bytes(40);
  const auto best = inference::best(predictor_->classes(encoded({file}))[0].get().scores, 2);
  const json outputs = {
      {"outputs", {{{"name", "scores"}, {"parameters", {{"classification", 2}}}}}}};
  const auto output = output_of(ask(api_, images_request("tiny", {file}, outputs)), "scores");
  EXPECT_EQ(output["datatype"], "BYTES");
  EXPECT_EQ(output["shape"], json({1, 2}));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(output["data"][i], fmt::format("{:f}:{}:{}", best[i].score, best[i].label,
                                             predictor_->loaded().class_name(best[i].label)));
  }
}

TEST_F(InferenceApiTest, FeaturesAndAttentionComeOnRequest) {
  const auto file = png_bytes(40);
  const auto features = ask(api_, images_request("tiny", {file}, binary_output("features")));
  EXPECT_EQ(floats_of(features, "features"),
            floats_of(predictor_->features(encoded({file}))[0].get()));
  EXPECT_EQ(output_of(features, "scores"), json());
  const json on_request = {{"parameters", {{"attention", true}, {"binary_data_output", true}}}};
  const auto attention = ask(api_, images_request("tiny", {file}, on_request));
  EXPECT_EQ(floats_of(attention, "scores").size(), 4U);
  EXPECT_THAT(binary_of(attention, "attention").substr(4), StartsWith("\x89PNG"));
  EXPECT_EQ(
      ask(api_, images_request("tiny", {file}, {{"parameters", {{"attention", true}}}})).status,
      400);
}

TEST_F(InferenceApiTest, AWholeBodyCanBeAnImage) {
  auto request = request_to("/v2/models/tiny/infer", "POST", png_bytes(40));
  request.headers.emplace_back("inference-header-content-length", "0");
  const auto response = ask(api_, request);
  EXPECT_EQ(output_of(response, "labels"),
            output_of(ask(api_, images_request("tiny", {png_bytes(40)})), "labels"));
}

TEST_F(InferenceApiTest, WhatIsWrongIsSaid) {
  const auto said = [&](HttpRequest request) {
    const auto response = ask(api_, std::move(request));
    EXPECT_EQ(response.status, 400);
    return error_of(response);
  };
  const auto png = png_bytes(1);
  EXPECT_THAT(said(images_request("tiny", {"no image"})), HasSubstr("image: "));
  EXPECT_THAT(said(images_request("tiny", {png, png.substr(0, 40)})), HasSubstr("image 1"));
  EXPECT_THAT(said(images_request("tiny", std::vector<std::string>(5, png))), HasSubstr("1 to 4"));
  EXPECT_THAT(said(infer_of("tiny", {{"name", "image"}, {"datatype", "BYTES"}, {"shape", {1}}},
                            bytes_tensor({png}))),
              HasSubstr("a shape of [1]; expected 2 sides"));
  EXPECT_THAT(
      said(infer_of("tiny", {{"name", "image"}, {"datatype", "UINT8"}, {"shape", {1, 2}}}, "ab")),
      HasSubstr("datatype UINT8; expected BYTES"));
  EXPECT_THAT(said(infer_of("tiny", {{"name", "tensor"}, {"datatype", "FP64"}, {"shape", {1}}},
                            "12345678")),
              HasSubstr("datatype FP64; expected FP32 or BF16"));
  const std::string pixels(3 * 64 * 4, '\0');
  EXPECT_THAT(
      said(infer_of("tiny", {{"name", "tensor"}, {"datatype", "FP32"}, {"shape", {1, 3, 8, 8}}},
                    pixels)),
      HasSubstr("expected [batch, 1, 8, 8]"));
  EXPECT_THAT(
      said(infer_of("tiny", {{"name", "tensor"}, {"datatype", "FP32"}, {"shape", {3, 1, 16, 4}}},
                    pixels)),
      HasSubstr("images came as [1, 1, 16, 4]"));
  EXPECT_THAT(
      said(infer_of("tiny", {{"name", "images"}, {"datatype", "BYTES"}, {"shape", {1, 1}}},
                    bytes_tensor({png}))),
      HasSubstr(
          "unknown input 'images'; expected one of `image` and `tensor`; did you mean image?"));
  EXPECT_THAT(said(images_request("tiny", {png}, binary_output("score"))),
              HasSubstr("unknown output 'score'; expected scores, labels"));
  EXPECT_THAT(said(images_request(
                  "tiny", {png},
                  {{"outputs", {{{"name", "labels"}, {"parameters", {{"classification", 1}}}}}}})),
              HasSubstr("expected it of 'scores' alone"));
}

TEST_F(InferenceApiTest, EachErrorHasItsStatus) {
  EXPECT_EQ(get("/").status, 404);
  EXPECT_EQ(get("/v2/models/tiny/weights").status, 404);
  EXPECT_EQ(get("/v2/models/tiny/versions/7").status, 404);
  EXPECT_EQ(get("/v2/models/tiny/infer").status, 405);
  const auto unknown = get("/v2/models/tinny");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(error_of(unknown), HasSubstr("did you mean tiny?"));
  auto request = images_request("tiny", {png_bytes(1)});
  request.headers = {{"inference-header-content-length", "twelve"}};
  EXPECT_THAT(error_of(ask(api_, request)), HasSubstr("'twelve'; expected a number of bytes"));
}

// A PNG that announces 100,000 x 100,000 pixels; nothing is allocated for them.
TEST_F(InferenceApiTest, RefusesAHugeImageByItsHeader) {
  auto png = png_bytes(1);
  for (const size_t place : {16, 20}) png.replace(place, 4, std::string("\x00\x01\x86\xa0", 4));
  const auto response = ask(api_, images_request("tiny", {png}));
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(error_of(response), HasSubstr("100000"));
}

TEST_F(InferenceApiTest, ABadImageFailsItsOwnRequestAlone) {
  std::vector<std::future<HttpResponse>> answers;
  for (int i = 0; i < 12; ++i) {
    answers.push_back(
        send(api_, images_request("tiny", {i % 3 == 1 ? "damaged" : png_bytes(i)}, kBinary)));
  }
  for (int i = 0; i < 12; ++i) {
    const auto response = answers[static_cast<size_t>(i)].get();
    EXPECT_EQ(response.status, i % 3 == 1 ? 400 : 200) << error_of(response);
  }
  // Tensors of a size that the model does not take are known in the pass alone.
  answers.clear();
  for (int i = 0; i < 6; ++i) {
    const std::vector<int64_t> shape = {1, 1, i % 2 == 0 ? 8 : 16, 8};
    const std::string pixels(static_cast<size_t>(shape[2] * 8 * 4), '\0');
    answers.push_back(send(
        api_,
        infer_of("tiny", {{"name", "tensor"}, {"datatype", "FP32"}, {"shape", shape}}, pixels)));
  }
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(answers[static_cast<size_t>(i)].get().status, i % 2 == 0 ? 200 : 400);
}

TEST_F(OwnServerTest, CountsWhatItDoes) {
  ask(api_, images_request("tiny", {png_bytes(0), png_bytes(1), png_bytes(2)}));
  ask(api_, images_request("tiny", {png_bytes(3)}));
  ask(api_, images_request("tiny", {"damaged"}));
  const auto stats = json_of(get("/v2/models/tiny/stats"))["model_stats"][0];
  EXPECT_EQ(stats["inference_count"], 4);
  EXPECT_EQ(stats["execution_count"], 2);
  EXPECT_EQ(stats["inference_stats"]["success"]["count"], 2);
  EXPECT_EQ(stats["inference_stats"]["fail"]["count"], 1);
  EXPECT_EQ(stats["batch_stats"][1]["batch_size"], 3);
  EXPECT_EQ(stats["batch_stats"][1]["compute_infer"]["count"], 1);
  EXPECT_GT(stats["inference_stats"]["compute_infer"]["ns"], 0);
  EXPECT_EQ(json_of(get("/v2/models/stats"))["model_stats"][0], stats);
  const auto snapshot = models_.statistics("tiny");
  EXPECT_EQ(snapshot.pending, 0U);
  uint64_t in_buckets = 0;
  for (const auto count : snapshot.latency.counts) in_buckets += count;
  EXPECT_EQ(in_buckets, 2U);
}

TEST_F(OwnServerTest, ModelsComeAndGo) {
  const auto post = [&](const std::string& path, const std::string& body = {}) {
    return ask(api_, request_to(path, "POST", body));
  };
  EXPECT_EQ(json_of(post("/v2/repository/index")),
            json::parse(R"([{"name": "tiny", "version": "1", "state": "READY", "reason": ""}])"));
  EXPECT_EQ(post("/v2/repository/models/tiny/unload").status, 200);
  EXPECT_EQ(json_of(post("/v2/repository/index"))[0]["reason"], "unloaded");
  EXPECT_EQ(json_of(post("/v2/repository/index", R"({"ready": true})")), json::array());
  const auto gone = ask(api_, images_request("tiny", {png_bytes(1)}));
  EXPECT_EQ(gone.status, 503);
  EXPECT_EQ(header_of(gone, "Retry-After"), "1");
  EXPECT_EQ(get("/v2/health/ready").status, 200);
  EXPECT_EQ(get("/v2/models/tiny/ready").status, 400);
  EXPECT_EQ(post("/v2/repository/models/tiny/unload").status, 400);
  EXPECT_EQ(post("/v2/repository/models/none/load").status, 404);
  EXPECT_THAT(
      error_of(post("/v2/repository/models/tiny/load", R"({"parameters": {"config": "{}"}})")),
      HasSubstr("parameters.config: expected none"));
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(post("/v2/repository/models/tiny/load").status, 200);
  EXPECT_EQ(post("/v2/repository/models/tiny/load").status,
            200);  // again: takes the place of itself
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(ask(api_, images_request("tiny", {png_bytes(1)})).status, 200);
  InferenceApi fixed(models_, {.server_version = "1", .model_control = false});
  EXPECT_THAT(error_of(ask(fixed, request_to("/v2/repository/models/tiny/unload", "POST"))),
              HasSubstr("--model-control"));
}

TEST_F(OwnServerTest, FinishesWhatItTookAndTakesNoMore) {
  std::vector<std::future<HttpResponse>> answers;
  for (int i = 0; i < 20; ++i)
    answers.push_back(send(api_, images_request("tiny", {png_bytes(i)})));
  models_.drain();
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    EXPECT_EQ(answer.get().status, 200);
  }
  EXPECT_EQ(get("/v2/health/ready").status, 400);
  EXPECT_EQ(get("/v2/health/live").status, 200);
  EXPECT_EQ(ask(api_, images_request("tiny", {png_bytes(1)})).status, 503);
  EXPECT_EQ(ask(api_, request_to("/v2/repository/models/tiny/load", "POST")).status, 503);
}

// Requests that wait for a batch that is never full.
class WaitingApiTest : public OwnServerTest {
 protected:
  WaitingApiTest()
      : OwnServerTest({.max_batch_size = 8,
                       .max_queue_delay_microseconds = 50'000'000,
                       .max_queue_size = 2}) {}
};

TEST_F(WaitingApiTest, APassedTimeoutIs503) {
  const auto late =
      ask(api_, images_request("tiny", {png_bytes(1)}, {{"parameters", {{"timeout", 20'000}}}}));
  EXPECT_EQ(late.status, 503);
  EXPECT_THAT(error_of(late), HasSubstr("longer than its timeout"));
  auto request = images_request("tiny", {png_bytes(1)});
  request.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_EQ(ask(api_, request).status, 503);
  EXPECT_EQ(models_.statistics("tiny").pending, 0U);
}

// Decoded beside a pass, what is no image is known long before its batch.
TEST_F(WaitingApiTest, ABadImageWaitsForNoBatch) {
  EXPECT_EQ(ask(api_, images_request("tiny", {"no image"})).status, 400);
}

class NothingAheadApiTest : public OwnServerTest {
 protected:
  NothingAheadApiTest()
      : OwnServerTest({.max_batch_size = 8,
                       .max_queue_delay_microseconds = 50'000'000,
                       .decoded_budget = 0}) {}
};

TEST_F(NothingAheadApiTest, WithoutABudgetImagesAreDecodedInTheirPass) {
  auto bad = send(api_, images_request("tiny", {"no image"}));
  auto good = send(api_, images_request("tiny", {png_bytes(40)}, kBinary));
  EXPECT_EQ(bad.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  models_.drain();  // which waits for no others
  EXPECT_EQ(bad.get().status, 400);
  EXPECT_EQ(floats_of(good.get(), "scores"),
            floats_of(server.predictor().classes(encoded({png_bytes(40)}))[0].get().scores));
}

TEST_F(WaitingApiTest, AFullQueueIs503) {
  auto first = send(api_, images_request("tiny", {png_bytes(1)}));
  auto second = send(api_, images_request("tiny", {png_bytes(2)}));
  const auto full = ask(api_, images_request("tiny", {png_bytes(3)}));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(header_of(full, "Retry-After"), "1");
  EXPECT_THAT(error_of(full), HasSubstr("2 requests wait"));
  models_.drain();  // which waits for no others
  EXPECT_EQ(first.get().status, 200);
  EXPECT_EQ(second.get().status, 200);
}

}  // namespace
}  // namespace fovea::serve
