// fovea elastic scheduler|worker|scale|status|stop|audit ...
#include "apps/fovea/commands/elastic.h"

#include "apps/fovea/command.h"
#include "fovea/elastic/control/status.h"

namespace fovea::app {
namespace {

// With a run folder in place of a name the folder says where its etcd is.
elastic::EtcdPlace place_of(const RunOptions& options) {
  const auto place = elastic::read_run_place(options.run);
  const auto& urls = options.etcd.etcd.empty() ? place.etcd : options.etcd.etcd;
  return elastic::etcd_place(urls, options.etcd.ca, options.etcd.user);
}

elastic::RunKeys keys_of(elastic::EtcdClient& client, const RunOptions& options) {
  const auto place = elastic::read_run_place(options.run);
  return elastic::find_run(client, place.run.empty() ? options.run : place.run);
}

}  // namespace

void add_etcd_options(Command command, EtcdOptions& options) {
  command
      .add_option("--etcd", options.etcd,
                  "addresses of etcd, the first one that answers; by default $FOVEA_ETCD")
      .type_name("URL,...");
  command
      .add_option(
          "--etcd-ca", options.ca,
          "certificate (PEM) of who signed etcd's own; by default $FOVEA_ETCD_CA, else whom "
          "the system trusts")
      .type_name("FILE");
  command
      .add_option("--etcd-user", options.user,
                  "user of etcd, whose password is in $FOVEA_ETCD_PASSWORD; by default "
                  "$FOVEA_ETCD_USER, else none")
      .type_name("NAME");
}

void add_run_options(Command command, RunOptions& options) {
  add_etcd_options(command, options.etcd);
  command
      .add_option(
          "--run", options.run,
          "name of the run, or its folder, which says where its etcd is; by default the only "
          "run there is")
      .type_name("NAME|RUN_DIR");
}

OpenRun::OpenRun(const RunOptions& options)
    : client(place_of(options)), keys(keys_of(client, options)) {}

void add_elastic(Command app) {
  auto group = app.add_command("elastic",
                               "Runs whose workers come and go while they train: begin one, take "
                               "part, ask for a change, look at one, choose its devices");
  group.require_command();
  group.examples({"fovea elastic scheduler recipes/fashion_mnist/vit.yaml",
                  "fovea elastic worker --run runs/vit",
                  "fovea elastic scale --run runs/vit --workers 4"});
  add_elastic_scheduler(group);
  add_elastic_worker(group);
  add_elastic_scale(group);
  add_elastic_status(group);
  add_elastic_stop(group);
  add_elastic_audit(group);
  add_elastic_solve(group);
  add_elastic_simulate(group);
}

}  // namespace fovea::app
