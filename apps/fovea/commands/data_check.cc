// fovea data check RECIPE|DATA
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/progress_counter.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data_tools/damaged_samples.h"

namespace fovea::app {
namespace {

struct CheckArguments {
  std::string source;
  std::vector<std::string> overrides;
  int64_t threads = 0;
  bool json = false;
};

void print(const CheckArguments& arguments, const std::string& name,
           const data::CheckReport& report) {
  const auto& title = name.empty() ? arguments.source : name;
  if (arguments.json) {
    auto damaged = nlohmann::ordered_json::array();
    for (const auto& [index, reason] : report.damaged) {
      damaged.push_back({{"index", index}, {"reason", reason}});
    }
    const nlohmann::ordered_json out = {
        {"name", title}, {"num_samples", report.samples}, {"damaged", damaged}};
    say_as_is("{}\n", json_text(out));
    return;
  }
  for (const auto& [index, reason] : report.damaged) say("{}[{}]: {}\n", title, index, reason);
  say("{}: {}, {} damaged\n", title, counted(report.samples, "sample"), report.damaged.size());
}

void run(const CheckArguments& arguments) {
  bool is_good = true;
  for (const auto& [name, config] : chosen_datasets(arguments.source, arguments.overrides)) {
    auto checked = config;
    if (auto* packed = checked.get_if<data::PackedConfig>()) packed->verify = true;
    const auto dataset = data::build_dataset(checked, data::EmptyClasses::kAllowed);
    ProgressCounter progress("checking", arguments.json);
    const auto report = data::check_dataset(*dataset, arguments.threads, progress.callback());
    progress.clear();
    print(arguments, name, report);
    is_good = is_good && report.damaged.empty();
  }
  if (!is_good) throw ExitRequest{static_cast<int>(ExitCode::kData)};
}

}  // namespace

void add_data_check(Command group) {
  auto command = group.add_command(
      "check", "Read every sample and name those that are damaged; exit code 4 where one is");
  auto arguments = std::make_shared<CheckArguments>();
  command.add_option("source", arguments->source, kDataSourceHelp)
      .required()
      .type_name("RECIPE|DATA");
  add_overrides(command, arguments->overrides, "data.train.path=photos");
  command.add_option("--threads", arguments->threads, "0: one for each core").in_range(0, 1024);
  command.add_flag("--json", arguments->json,
                   "print one JSON object for each data set and nothing else");
  command.examples(
      {"fovea data check photos", "fovea data check recipes/fashion_mnist/vit.yaml --json"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
