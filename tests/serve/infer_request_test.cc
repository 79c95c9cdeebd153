#include "fovea/serve/protocol/infer_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/serve/protocol/infer_response.h"
#include "fovea/serve/protocol/status_error.h"
#include "tests/serve/served.h"

namespace fovea::serve {
namespace {

using nlohmann::json;
using testing::bytes_tensor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::number_bytes;

InferRequest read(std::string body, std::optional<uint64_t> length = {}) {
  return read_infer_request(std::make_shared<const std::string>(std::move(body)), length);
}

// JSON with data behind it.
InferRequest read_binary(const json& head, const std::string& data) {
  const auto text = json_text(head);
  return read(text + data, text.size());
}

template <class... Arguments>
std::string refusal(const Arguments&... arguments) {
  try {
    read(arguments...);
  } catch (const Error& error) {
    return error.what();
  }
  return "it was read";
}

json input(const std::string& datatype, const json& shape, std::optional<int64_t> bytes = {}) {
  json one = {{"name", "x"}, {"datatype", datatype}, {"shape", shape}};
  if (bytes) one["parameters"] = {{"binary_data_size", *bytes}};
  return one;
}

// A request with one input.
std::string body_of(const json& one) {
  json request;
  request["inputs"].push_back(one);
  return json_text(request);
}

std::string refusal_of(const json& one, const std::string& data) {
  const auto head = body_of(one);
  return refusal(head + data, std::optional<uint64_t>(head.size()));
}

TEST(InferRequestTest, NumbersOfJsonMayStandInListsOrInARow) {
  const auto expected = number_bytes<float>({1, 2.5, -3, 4});
  for (const char* data : {"[[1, 2.5], [-3, 4]]", "[1, 2.5, -3, 4]"}) {
    json one = input("FP32", {2, 2});
    one["data"] = json::parse(data);
    const auto request = read(json_text(json({{"id", "42"}, {"inputs", json::array({one})}})));
    EXPECT_EQ(request.id, "42");
    ASSERT_EQ(request.inputs.size(), 1U);
    EXPECT_EQ(request.inputs[0].bytes, expected);
    EXPECT_THAT(request.inputs[0].shape, ElementsAre(2, 2));
  }
}

TEST(InferRequestTest, BinaryDataLiesBehindTheJsonInOrder) {
  const auto numbers = number_bytes<float>({1, 2}), texts = bytes_tensor({"ab", "", "c"});
  auto second = input("BYTES", {3, 1}, texts.size());
  second["name"] = "y";
  const json head = {
      {"inputs", {input("FP32", {2}, numbers.size()), second}},
      {"outputs",
       {{{"name", "a"}},
        {{"name", "b"}, {"parameters", {{"binary_data", false}, {"classification", 3}}}}}},
      {"parameters", {{"binary_data_output", true}, {"timeout", 1000}, {"attention", true}}}};
  const auto request = read_binary(head, numbers + texts);
  EXPECT_EQ(request.inputs[0].bytes, numbers);
  EXPECT_THAT(bytes_elements(request.inputs[1]), ElementsAre("ab", "", "c"));
  EXPECT_TRUE(request.outputs[0].is_binary);
  EXPECT_FALSE(request.outputs[1].is_binary);
  EXPECT_EQ(request.outputs[1].classification, 3);
  EXPECT_EQ(request.timeout_microseconds, 1000);
  EXPECT_TRUE(request.flag("attention"));
  EXPECT_FALSE(request.flag("features"));
}

TEST(InferRequestTest, AWholeBodyCanBeAFile) {
  const auto request = read("\xff\xd8 a file", 0);
  ASSERT_EQ(request.inputs.size(), 1U);
  EXPECT_EQ(request.inputs[0].name, "image");
  EXPECT_THAT(bytes_elements(request.inputs[0]), ElementsAre("\xff\xd8 a file"));
}

TEST(InferRequestTest, RefusesWhatTheBytesDoNotHold) {
  EXPECT_THAT(refusal_of(input("FP32", {2, 2}, 12), std::string(12, 'x')),
              HasSubstr("12 bytes of data; expected 16"));
  EXPECT_THAT(refusal_of(input("FP32", {2}, 8), "1234"),
              HasSubstr("8 bytes of binary data, but 4 are left"));
  EXPECT_THAT(refusal_of(input("FP32", {1}, 4), "12345678"),
              HasSubstr("4 bytes stand behind the last tensor"));
  EXPECT_THAT(refusal_of(input("FP32", {1}, -4), ""), HasSubstr("-4; expected a number from 0"));
  EXPECT_THAT(refusal_of(input("FP31", {1}, 4), "1234"),
              HasSubstr("datatype 'FP31'; expected FP32, BF16 or BYTES"));
  EXPECT_THAT(refusal_of(input("FP32", {int64_t{1} << 40, int64_t{1} << 40}, 4), "1234"),
              HasSubstr("of at most"));
  EXPECT_THAT(refusal_of(input("FP32", {-1}, 4), "1234"), HasSubstr("a shape of [-1]"));
  EXPECT_THAT(refusal_of(input("FP32", json(std::vector<int>(17, 1)), 4), "1234"),
              HasSubstr("17 items; expected at most 16"));
  const auto texts = bytes_tensor({"ab", "c"});
  EXPECT_THAT(refusal_of(input("BYTES", {3}, texts.size()), texts),
              HasSubstr("2 elements in the data; expected 3"));
  EXPECT_THAT(refusal_of(input("BYTES", {1}, texts.size()), texts),
              HasSubstr("more elements in the data; expected 1"));
  EXPECT_THAT(refusal_of(input("BYTES", {2}, texts.size() - 1), texts.substr(0, texts.size() - 1)),
              HasSubstr("element 1 is cut short"));
  EXPECT_THAT(refusal_of(input("BYTES", {1}, 3), "abc"), HasSubstr("element 0 is cut short"));
}

TEST(InferRequestTest, RefusesWhatIsNoRequest) {
  const auto none = std::optional<uint64_t>();
  EXPECT_THAT(refusal("", none), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\"inputs\": 1}", none), HasSubstr("inputs"));
  EXPECT_THAT(refusal("{}", none), HasSubstr("inputs"));
  EXPECT_THAT(refusal("{}", std::optional<uint64_t>(3)),
              HasSubstr("is 3, but the body has 2 bytes"));
  EXPECT_THAT(refusal(body_of(input("FP32", {1}, 4)), none),
              HasSubstr("no header Inference-Header-Content-Length"));
  EXPECT_THAT(refusal(body_of(input("FP32", {1})), none), HasSubstr("no data"));
  EXPECT_THAT(
      refusal(R"({"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "data": ["QUJD"]}]})",
              none),
      HasSubstr("holds no binary data"));
  EXPECT_THAT(
      refusal(R"({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": ["a"]}]})",
              none),
      HasSubstr("expected a number"));
  EXPECT_THAT(refusal(R"({"inputs": [], "parameters": {"sequence_id": 3}})", none),
              HasSubstr("sequence_id: 3; expected none"));
  EXPECT_THAT(refusal(R"({"inputs": [], "outputs": [{"name": "a"}, {"name": "a"}]})", none),
              HasSubstr("output 'a' stands in the request twice"));
  json shared = input("FP32", {1});
  shared["parameters"] = {{"shared_memory_region", "r"}};
  EXPECT_THAT(refusal(body_of(shared), none), HasSubstr("shared memory"));
}

// Within a moment, and without a stack for each level.
TEST(InferRequestTest, RefusesDeepJson) {
  const std::string open(100'000, '['), close(100'000, ']');
  const auto deep = R"({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": )" +
                    open + "1" + close + "}]}";
  EXPECT_THAT(refusal(deep, std::optional<uint64_t>()), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(refusal(open, std::optional<uint64_t>()), HasSubstr("nested deeper than 16 levels"));
}

TEST(InferResponseTest, BinaryOutputsFollowTheJson) {
  InferResponse response{.model_name = "m", .model_version = "1", .id = "7", .outputs = {}};
  response.outputs.push_back({"a", "FP32", {2}, number_bytes<float>({0.5, 2}), false});
  response.outputs.push_back({"b", "BYTES", {2, 1}, bytes_tensor({"x", "\xff"}), true});
  response.outputs.push_back({"c", "INT64", {1}, number_bytes<int64_t>({int64_t{1} << 40}), false});
  const auto body = write_infer_response(std::move(response));
  const auto head = parse_json(body.bytes.substr(0, body.json_length.value()), "answer");
  EXPECT_EQ(head["id"], "7");
  EXPECT_EQ(head["model_name"], "m");
  EXPECT_EQ(head["outputs"][0]["data"], json({0.5, 2.0}));
  EXPECT_EQ(head["outputs"][1]["parameters"]["binary_data_size"], 10);
  EXPECT_FALSE(head["outputs"][1].contains("data"));
  EXPECT_EQ(head["outputs"][2]["data"][0], int64_t{1} << 40);
  EXPECT_EQ(body.bytes.substr(*body.json_length), bytes_tensor({"x", "\xff"}));
}

TEST(InferResponseTest, JsonHoldsTextAlone) {
  InferResponse response{.model_name = "m", .model_version = "1", .id = {}, .outputs = {}};
  response.outputs.push_back({"b", "BYTES", {1}, bytes_tensor({"\xff"}), false});
  try {
    write_infer_response(std::move(response));
    FAIL() << "it was written";
  } catch (const StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_THAT(error.what(), HasSubstr("binary_data"));
  }
}

}  // namespace
}  // namespace fovea::serve
