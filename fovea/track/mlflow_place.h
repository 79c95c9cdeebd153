// Where an MLflow server is, and what it is shown by those who may write there.
#pragma once

#include <string>

namespace fovea::track {

struct MlflowPlace {
  std::string uri;            // "https://mlflow.lab.org/base", without a slash at its end
  std::string ca_file;        // who signs for it; empty: whom the system trusts
  std::string authorization;  // the header's value: a secret; empty: none
};

// Why this is no address of an MLflow server, with what to do; empty: it is one. A password that
// stands in it is not repeated.
std::string fault_of_uri(const std::string& uri);

// uri: as given; empty: MLFLOW_TRACKING_URI. Throws ConfigError.
MlflowPlace mlflow_place(const std::string& uri);

// As given; empty: MLFLOW_EXPERIMENT_NAME, or "Default".
std::string mlflow_experiment(const std::string& given);

}  // namespace fovea::track
