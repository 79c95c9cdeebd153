#include "fovea/track/mlflow_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::track {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr const char* kRunText = R"({"run": {
  "info": {"run_id": "ab12", "experiment_id": "3", "status": "RUNNING", "lifecycle_stage": "active",
           "artifact_uri": "mlflow-artifacts:/3/ab12/artifacts"},
  "data": {"metrics": [{"key": "train/loss", "value": "NaN", "timestamp": "5", "step": "20"},
                       {"key": "val/top1", "value": 3, "timestamp": 5, "step": 10},
                       {"key": "first", "value": 3, "timestamp": 5}],
           "params": [{"key": "optim.lr", "value": "0.1"}]}}})";

TEST(MlflowWireTest, ReadsARun) {
  const auto run = read_run(kRunText, "server");
  EXPECT_EQ(run.id, "ab12");
  EXPECT_EQ(run.experiment_id, "3");
  EXPECT_EQ(run.status, "RUNNING");
  EXPECT_FALSE(run.is_deleted);
  EXPECT_THAT(run.last_steps,
              ElementsAre(Pair("first", 0), Pair("train/loss", 20), Pair("val/top1", 10)));
  EXPECT_THAT(run.params, ElementsAre("optim.lr"));
  EXPECT_FALSE(read_first_run("{}", "server"));
  EXPECT_FALSE(read_first_run(R"({"runs": []})", "server"));
}

TEST(MlflowWireTest, RefusesWhatIsNoAnswer) {
  for (const char* text :
       {"", "<html>", "{}", R"({"run": {}})", R"({"run": {"info": {"run_id": "../x"}}})",
        R"({"run": {"info": {"run_id": "a", "experiment_id": 3}}})"}) {
    EXPECT_THROW(read_run(text, "server"), DataError) << text;
  }
  EXPECT_THROW(read_experiment("[]", "server"), DataError);
  EXPECT_EQ(read_refusal("<html>").code, "");
  EXPECT_EQ(read_refusal(R"({"error_code": "X", "message": "y"})").message, "y");
}

TEST(MlflowWireTest, NamesAreThoseThatItTakes) {
  EXPECT_EQ(mlflow_name("train/dice_1.x-y z"), "train/dice_1.x-y z");
  EXPECT_EQ(mlflow_name("val/gr\xc3\xb6\xc3\x9f"
                        "e?"),
            "val/gr__e_");
  EXPECT_EQ(mlflow_name("/a//../b/."), "_/a/_/_/b/_");
  EXPECT_EQ(mlflow_name(std::string(300, 'a')).size(), kMostNameBytes);
  EXPECT_EQ(shortened("a\xc3\xb6", 2), "a");
}

TEST(MlflowWireTest, NumbersWithoutAWordInJsonAreTexts) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(metric_json("a", std::numeric_limits<double>::quiet_NaN(), 1, 2).at("value"), "NaN");
  EXPECT_EQ(metric_json("a", kInf, 1, 2).at("value"), "Infinity");
  EXPECT_EQ(metric_json("a", -kInf, 1, 2).at("value"), "-Infinity");
  EXPECT_EQ(json_text(metric_json("a", 0.1, 1, 2)),
            R"({"key":"a","step":2,"timestamp":1,"value":0.1})");
}

TEST(MlflowWireTest, RequestsStayWithinTheLimits) {
  std::vector<nlohmann::json> items;
  for (int i = 0; i < 2500; ++i) items.push_back(metric_json("loss", i, 0, i));
  auto requests = in_requests(items, kMostMetrics);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].size(), 1000u);
  EXPECT_EQ(requests[2].back().at("step"), 2499);
  std::map<std::string, std::string> params;
  for (int i = 0; i < 400; ++i) params["p" + std::to_string(i)] = std::string(10'000, '"');
  requests = in_requests(pairs_json(params, kMostParamBytes), kMostParams);
  size_t count = 0;
  for (const auto& request : requests) {
    EXPECT_LE(json_text(request).size(), kMostBytes + 2);
    EXPECT_EQ(request[0].at("value").get<std::string>().size(), kMostParamBytes);
    count += request.size();
  }
  EXPECT_EQ(count, 400u);
  EXPECT_TRUE(in_requests({}, 10).empty());
}

TEST(MlflowWireTest, ArtifactsGoToTheServerThatHasThem) {
  const std::string server = "http://lab:5000/base";
  EXPECT_EQ(artifact_path("mlflow-artifacts:/0/ab/artifacts", server, "report.html"),
            "/0/ab/artifacts/report.html");
  EXPECT_EQ(artifact_path("mlflow-artifacts://lab:5000/0/a b", server, "x"), "/0/a b/x");
  for (const char* elsewhere : {"s3://bucket/0", "/mlruns/0", "mlflow-artifacts://other/0/ab",
                                "mlflow-artifacts:/0/../ab", ""}) {
    EXPECT_FALSE(artifact_path(elsewhere, server, "x")) << elsewhere;
  }
}

}  // namespace
}  // namespace fovea::track
