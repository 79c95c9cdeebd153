// Keys of a recipe's log.mlflow.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::track {

struct MlflowConfig {
  std::string uri;
  std::string experiment;
  std::string run_name;
  std::map<std::string, std::string> tags;
  std::vector<std::string> artifacts = {"report"};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("uri", self.uri,
            "address of the MLflow server, http://HOST:PORT or https://...; empty: "
            "MLFLOW_TRACKING_URI. User and password, or a token, come from "
            "MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN, alone");
    v.field("experiment", self.experiment,
            "MLflow's experiment, made where it is not there; empty: MLFLOW_EXPERIMENT_NAME, or "
            "Default");
    v.field("run_name", self.run_name, "name of the run there; empty: the run folder's");
    v.field("tags", self.tags, "more tags of the run there, such as {team: vision}");
    v.field("artifacts", self.artifacts,
            "what of the run folder is sent at its end: report, the page and the resolved recipe; "
            "weights, the final ones; none",
            {.choices = {"report", "weights", "none"}, .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
};

}  // namespace fovea::track
