#include "fovea/serve/metrics_text.h"

#include <gmock/gmock.h>

namespace fovea::serve {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTextTest, WritesWhatPrometheusReads) {
  ModelMetrics model{.name = "a\"b\\c\n", .version = "1", .is_ready = true};
  model.statistics.success = {.count = 3, .nanoseconds = 4'500'900};
  model.statistics.fail = {.count = 1, .nanoseconds = 0};
  model.statistics.inference_count = 12;
  model.statistics.execution_count = 2;
  model.statistics.pending = 5;
  const auto text = metrics_text({model, {.name = "d", .version = "1"}});
  const std::string labels = R"({model="a\"b\\c\n",version="1"} )";
  for (const auto& line :
       {"fovea_inference_request_success" + labels + "3\n",
        "fovea_inference_request_failure" + labels + "1\n",
        "fovea_inference_count" + labels + "12\n", "fovea_inference_exec_count" + labels + "2\n",
        "fovea_inference_request_duration_us" + labels + "4500\n",
        "fovea_inference_pending_request_count" + labels + "5\n",
        "fovea_model_ready" + labels + "1\n"}) {
    EXPECT_THAT(text, HasSubstr("\n" + line));
  }
  EXPECT_THAT(text, HasSubstr("\nfovea_model_ready{model=\"d\",version=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE fovea_inference_count counter\n"));
}

TEST(MetricsTextTest, CountsLatenciesUpToEachBound) {
  ModelMetrics model{.name = "a", .version = "1"};
  for (const double seconds : {0.001, 0.002, 0.002, 0.03, 100.0}) {
    model.statistics.latency.add(seconds);
  }
  const auto text = metrics_text({model});
  const std::string name = "\nfovea_inference_request_duration_seconds";
  const std::string bucket = name + R"(_bucket{model="a",version="1",le=")";
  EXPECT_THAT(text, HasSubstr(bucket + "0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "0.0025\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "0.025\"} 3\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "0.05\"} 4\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "30\"} 4\n"));
  EXPECT_THAT(text, HasSubstr(bucket + "+Inf\"} 5\n"));
  EXPECT_THAT(text, HasSubstr(name + R"(_sum{model="a",version="1"} 100.035)"));
  EXPECT_THAT(text, HasSubstr(name + R"(_count{model="a",version="1"} 5)"));
}

}  // namespace
}  // namespace fovea::serve
