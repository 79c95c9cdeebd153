#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/track/mlflow_config.h"
#include "fovea/track/mlflow_place.h"

namespace fovea::track {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class MlflowPlaceTest : public ::testing::Test {
 protected:
  MlflowPlaceTest() {
    for (const char* name :
         {"MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD",
          "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_SERVER_CERT_PATH", "MLFLOW_EXPERIMENT_NAME"}) {
      unsetenv(name);
    }
  }
  static std::string refusal(const std::string& uri) {
    try {
      mlflow_place(uri);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(MlflowPlaceTest, TakesServersAlone) {
  EXPECT_EQ(mlflow_place("http://127.0.0.1:5000/").uri, "http://127.0.0.1:5000");
  EXPECT_EQ(mlflow_place("https://lab.org/mlflow").uri, "https://lab.org/mlflow");
  for (const auto& [uri, said] : std::map<std::string, std::string>{
           {"127.0.0.1:5000", "expected http://"},
           {"http:/lab.org", "expected http://"},
           {"http://", "expected http://"},
           {"http://:5000", "expected http://"},
           {"http://lab.org/?a=b", "expected http://"},
           {"http://lab.org\nX: y", "expected http://"},
           {"databricks", "files of Databricks"},
           {"databricks://profile", "files of Databricks"},
           {"file:///tmp/mlruns", "mlflow server --backend-store-uri FOLDER"},
           {"mlruns/here", "mlflow server --backend-store-uri FOLDER"},
           {"sqlite:///mlflow.db", "the database sqlite"},
           {"ftp://lab.org", "expected http://"},
       }) {
    EXPECT_THAT(refusal(uri), HasSubstr(said)) << uri;
  }
  EXPECT_THAT(refusal(""), HasSubstr("no address of an MLflow server"));
}

TEST_F(MlflowPlaceTest, ASecretInAnAddressIsNotRepeated) {
  EXPECT_THAT(refusal("https://me:hunter2@lab.org"),
              AllOf(HasSubstr("MLFLOW_TRACKING_PASSWORD"), Not(HasSubstr("hunter2"))));
}

TEST_F(MlflowPlaceTest, TheEnvironmentSaysWhatIsNotGiven) {
  setenv("MLFLOW_TRACKING_URI", "https://lab.org", 1);
  setenv("MLFLOW_TRACKING_TOKEN", "t0ken", 1);
  setenv("MLFLOW_TRACKING_SERVER_CERT_PATH", "/ca.pem", 1);
  auto place = mlflow_place("");
  EXPECT_EQ(place.uri, "https://lab.org");
  EXPECT_EQ(place.authorization, "Bearer t0ken");
  EXPECT_EQ(place.ca_file, "/ca.pem");
  setenv("MLFLOW_TRACKING_USERNAME", "me", 1);
  setenv("MLFLOW_TRACKING_PASSWORD", "hunter2", 1);
  place = mlflow_place("http://other.org");
  EXPECT_EQ(place.uri, "http://other.org");
  EXPECT_EQ(place.authorization, "Basic bWU6aHVudGVyMg==");
  setenv("MLFLOW_TRACKING_PASSWORD", "a\r\nX: y", 1);
  EXPECT_THAT(refusal("http://other.org"), HasSubstr("a line end"));
  setenv("MLFLOW_TRACKING_URI", "mlruns", 1);
  setenv("MLFLOW_TRACKING_PASSWORD", "b", 1);
  EXPECT_THAT(refusal(""), HasSubstr("MLFLOW_TRACKING_URI: found"));
  EXPECT_EQ(mlflow_experiment(""), "Default");
  setenv("MLFLOW_EXPERIMENT_NAME", "flowers", 1);
  EXPECT_EQ(mlflow_experiment(""), "flowers");
  EXPECT_EQ(mlflow_experiment("cars"), "cars");
}

std::string recipe_refusal(const std::string& yaml) {
  try {
    parse_config<MlflowConfig>(yaml, "r.yaml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_F(MlflowPlaceTest, ARecipeIsCheckedBeforeItRuns) {
  EXPECT_EQ(recipe_refusal("{}"), "");
  EXPECT_EQ(recipe_refusal("{uri: https://lab.org, tags: {a: b}, artifacts: [report, weights]}"),
            "");
  EXPECT_THAT(recipe_refusal("uri: mlruns/x"), HasSubstr("uri"));
  EXPECT_THAT(recipe_refusal("artifacts: model"), HasSubstr("report, weights, none"));
  EXPECT_THAT(recipe_refusal("artifacts: [none, report]"), HasSubstr("none beside others"));
}

}  // namespace
}  // namespace fovea::track
