// fovea elastic status [--run NAME|RUN_DIR]
// fovea elastic audit RUN_DIR
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/elastic.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/elastic/control/audit.h"
#include "fovea/elastic/control/status.h"
#include "fovea/files/record_json.h"

namespace fovea::app {
namespace {

using nlohmann::ordered_json;

struct StatusArguments {
  RunOptions run;
  bool json = false;
};

ordered_json to_json(const elastic::RunStatus& status) {
  auto members = ordered_json::array();
  for (const auto& member : status.members) {
    members.push_back({{"worker", member.worker},
                       {"rank", member.rank},
                       {"rows", member.rows},
                       {"device", member.device},
                       {"host", member.host},
                       {"lease_s", member.lease_s}});
  }
  ordered_json proposal = nullptr;
  if (status.proposal) proposal = record_json(*status.proposal);
  return {{"run", status.run},
          {"state", status.state},
          {"generation", status.generation},
          {"leader", status.leader},
          {"step", status.step},
          {"position", status.position},
          {"global_batch", status.global_batch},
          {"members", members},
          {"waiting", status.waiting},
          {"missing", status.missing},
          {"proposal", proposal},
          {"next_step", status.next_step}};
}

void print_status(const elastic::RunStatus& status) {
  say("run {}: {}, generation {}, step {}, global batch {}\n", status.run, status.state,
      status.generation, status.step, status.global_batch);
  say("  leader   {}\n", status.leader.empty() ? "nobody at the moment" : status.leader);
  for (const auto& member : status.members) {
    say("  rank {:<3} {}  {} rows on {} ({}), lease {}\n", member.rank, member.worker, member.rows,
        member.device, member.host,
        member.lease_s > 0 ? fmt::format("{} s", member.lease_s) : "ended");
  }
  for (const auto& worker : status.waiting) say("  waiting  {}\n", worker);
  if (status.proposal) say("  proposal {}\n", status.proposal->reason);
  if (status.next_step >= 0) say("  a change was asked for at step {}\n", status.next_step);
  if (!status.missing.empty()) say("  missing  {}\n", status.missing);
}

struct AuditArguments {
  std::string run_dir;
  int64_t num_samples = 0;  // 0: not given
  bool json = false;
};

void print_audit(const elastic::Audit& audit, bool as_json) {
  if (as_json) {
    auto epochs = ordered_json::array();
    for (const auto& epoch : audit.epochs) {
      epochs.push_back({{"epoch", epoch.epoch},
                        {"samples", epoch.samples},
                        {"missing", epoch.missing},
                        {"doubled", epoch.doubled}});
    }
    say_as_is("{}\n", json_text(ordered_json{{"ok", audit.is_ok()},
                                             {"epochs", epochs},
                                             {"num_samples", audit.num_samples},
                                             {"generations", audit.num_generations},
                                             {"steps_lost", audit.steps_lost}}));
    return;
  }
  for (const auto& epoch : audit.epochs) {
    say("epoch {}: {}{}, {} missing, {} doubled\n", epoch.epoch, counted(epoch.samples, "sample"),
        epoch.is_whole ? "" : " so far", epoch.missing, epoch.doubled);
  }
  say("{}: {} generations, {} lost\n", audit.is_ok() ? "ok, each sample once an epoch" : "NOT ok",
      audit.num_generations, counted(audit.steps_lost, "step"));
}

void run_audit(const AuditArguments& arguments) {
  const auto given = arguments.num_samples;
  const auto audit = elastic::audit_run(arguments.run_dir,
                                        given > 0 ? std::optional<int64_t>(given) : std::nullopt);
  print_audit(audit, arguments.json);
  if (!audit.is_ok()) throw ExitRequest{static_cast<int>(ExitCode::kData)};
}

}  // namespace

void add_elastic_status(Command group) {
  auto command =
      group.add_command("status", "Who takes part in a run, with how much, and what it waits for");
  auto arguments = std::make_shared<StatusArguments>();
  add_run_options(command, arguments->run);
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea elastic status --run runs/vit",
                    "fovea elastic status --etcd http://10.0.0.1:2379 --run vit --json"});
  command.callback([arguments] {
    OpenRun run(arguments->run);
    const auto status = elastic::read_status(run.client, run.keys);
    if (arguments->json) {
      say_as_is("{}\n", json_text(to_json(status)));
    } else {
      print_status(status);
    }
  });
}

void add_elastic_audit(Command group) {
  auto command = group.add_command("audit",
                                   "Whether each sample was trained on once an epoch, from "
                                   "RUN_DIR/samples (elastic.log_samples); exit code 4 where not");
  auto arguments = std::make_shared<AuditArguments>();
  command.add_option("run_dir", arguments->run_dir, "run folder").required().type_name("RUN_DIR");
  command
      .add_option("--num-samples", arguments->num_samples,
                  "of an epoch; 0: the largest id that was seen, and one")
      .in_range(0, int64_t{1} << 32)
      .type_name("N");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples(
      {"fovea elastic audit runs/vit", "fovea elastic audit runs/vit --num-samples 60000 --json"});
  command.callback([arguments] { run_audit(*arguments); });
}

}  // namespace fovea::app
