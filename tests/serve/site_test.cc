#include "fovea/serve/site.h"

#include <gmock/gmock.h>

#include "tests/serve/served.h"

namespace fovea::serve {
namespace {

using ::testing::HasSubstr;

class NamingHandler final : public HttpHandler {
 public:
  void handle(HttpRequest&& request, Done done) override {
    done({.status = 200, .headers = {}, .body = "api " + request.path});
  }
};

class SiteTest : public ::testing::Test {
 protected:
  HttpResponse ask(const std::string& path, const std::string& method = "GET") {
    HttpResponse answer;
    site_.handle(testing::request_to(path, method),
                 [&](HttpResponse&& response) { answer = std::move(response); });
    return answer;
  }

  ModelRepository models_{ServeOptions{}};
  NamingHandler api_;
  Site site_{models_, api_};
};

TEST_F(SiteTest, HasItsOwnPathsAndGivesOnTheOthers) {
  EXPECT_THAT(ask("/").body, HasSubstr("<!DOCTYPE html>"));
  EXPECT_EQ(ask("/", "POST").status, 405);
  EXPECT_EQ(ask("/v2").body, "api /v2");
  EXPECT_EQ(ask("/x").body, "api /x");
}

TEST_F(SiteTest, TellsOfModelsThatAreNotLoadedYet) {
  models_.add({.name = "later", .target = "nowhere"});
  const auto metrics = ask("/metrics");
  EXPECT_EQ(testing::header_of(metrics, "Content-Type"), kMetricsType);
  EXPECT_THAT(metrics.body, HasSubstr("fovea_model_ready{model=\"later\",version=\"1\"} 0\n"));
}

TEST_F(SiteTest, IsNotReadyWhenItIsToldToStop) {
  EXPECT_EQ(ask("/v2/health/ready").body, "api /v2/health/ready");
  site_.stop();
  EXPECT_EQ(ask("/v2/health/ready").status, 400);
  EXPECT_EQ(ask("/v2/health/live").status, 200);
}

}  // namespace
}  // namespace fovea::serve
