// fovea profile sync DIR --etcd URL
#include "fovea/elastic/profile/profile_sync.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/fovea/commands/elastic.h"
#include "apps/fovea/commands/profile.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/nearest.h"
#include "fovea/elastic/solve/solve_config.h"

namespace fovea::app {
namespace {

struct SyncArguments {
  std::string dir;
  EtcdOptions etcd;
  std::string name = "profiles";
  std::string config;
  bool json = false;
};

void tell_synced(const SyncArguments& arguments, const elastic::SyncedProfiles& synced,
                 const std::vector<std::string>& missing) {
  if (arguments.json) {
    auto object = profiles_json(synced.profiles);
    object["sent"] = synced.sent;
    object["received"] = synced.received;
    object["missing"] = missing;
    return say_as_is("{}\n", json_text(object));
  }
  for (const auto& device : synced.sent) say("sent      {}\n", device);
  for (const auto& device : synced.received) say("received  {}\n", device);
  say("{}: {} of {}\n", arguments.dir,
      counted(static_cast<int64_t>(synced.profiles.devices.size()), "kind of device"),
      synced.profiles.model.empty() ? "no model yet" : synced.profiles.model);
  for (const auto& what : missing) say("missing   {}\n", what);
}

void run_sync(const SyncArguments& arguments) {
  std::optional<elastic::Cluster> cluster;
  if (!arguments.config.empty()) cluster = elastic::load_cluster_of(arguments.config);
  elastic::ProfileSet own{.source = arguments.dir};
  if (elastic::has_profiles(arguments.dir)) own = elastic::read_profiles(arguments.dir);
  elastic::EtcdClient client(
      elastic::etcd_place(arguments.etcd.etcd, arguments.etcd.ca, arguments.etcd.user));
  const auto synced = elastic::sync_profiles(client, arguments.name, own);
  if (!synced.profiles.devices.empty()) elastic::write_profiles(synced.profiles, arguments.dir);
  tell_synced(arguments, synced, elastic::missing_profiles(synced.profiles, cluster));
}

}  // namespace

void add_profile_sync(Command group) {
  auto command = group.add_command(
      "sync",
      "Bring the profiles of several hosts together through etcd: puts those of a folder there, "
      "takes the others, and says what is missing");
  auto arguments = std::make_shared<SyncArguments>();
  command
      .add_option("dir", arguments->dir,
                  "folder of profiles; what others have measured is written into it")
      .required()
      .type_name("DIR");
  add_etcd_options(command, arguments->etcd);
  command.add_option("--name", arguments->name, "which of several sets, each of one model")
      .show_default()
      .type_name("NAME");
  command
      .add_option("--config", arguments->config,
                  "config with gpu_cluster_info, whose hosts all need a profile; without it what "
                  "several nodes need is asked for")
      .type_name("CONFIG");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea profile sync profiles --etcd http://10.0.0.1:2379",
                    "fovea profile sync profiles --config jabas.json --json"});
  command.callback([arguments] { run_sync(*arguments); });
}

}  // namespace fovea::app
