// Options that the commands of `fovea elastic` share.
#pragma once

#include <string>

#include "apps/fovea/command_line.h"
#include "fovea/elastic/control/etcd_client.h"
#include "fovea/elastic/control/records.h"
#include "fovea/elastic/solve/solve_config.h"

namespace fovea::app {

struct EtcdOptions {
  std::string etcd;
  std::string ca;
  std::string user;
};

// --etcd, --etcd-ca, --etcd-user.
void add_etcd_options(Command command, EtcdOptions& options);

// A run that is there: --etcd ... and --run.
struct RunOptions {
  EtcdOptions etcd;
  std::string run;
};
void add_run_options(Command command, RunOptions& options);

void add_elastic_scheduler(Command group);
void add_elastic_worker(Command group);
void add_elastic_scale(Command group);
void add_elastic_status(Command group);
void add_elastic_stop(Command group);
void add_elastic_audit(Command group);
void add_elastic_solve(Command group);
void add_elastic_simulate(Command group);

// "time", "cost", or a number from 0 to 1 between them: the power of the price in what is made
// least. Throws ConfigError for another word.
double cost_weight_of(const std::string& objective);

// What a config names, with profiles of the model and dtype that it has, where it is a recipe.
// Throws as load_solve_input and check_profiles_of_recipe do.
elastic::SolveInput load_profiled(const std::string& config);

// etcd and the run that the options mean. Throws as etcd_place and find_run do.
struct OpenRun {
  explicit OpenRun(const RunOptions& options);
  elastic::EtcdClient client;
  elastic::RunKeys keys;
};

}  // namespace fovea::app
