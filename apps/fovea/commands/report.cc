// fovea report RUN_DIR... [--out FILE]
#include "fovea/train/report/report.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/json.h"

namespace fovea::app {
namespace {

struct ReportArguments {
  std::vector<std::string> run_dirs;
  std::string out;
  bool json = false;
};

void run(const ReportArguments& arguments) {
  const std::vector<std::filesystem::path> folders(arguments.run_dirs.begin(),
                                                   arguments.run_dirs.end());
  const auto path = train::write_report(folders, arguments.out);
  if (arguments.json) {
    say_as_is("{}\n",
              json_text(nlohmann::json{{"report", path.string()}, {"runs", arguments.run_dirs}}));
  } else {
    say("{}\n", path.string());
  }
}

}  // namespace

void add_report(Command app) {
  auto command = app.add_command(
      "report", "One HTML page on a run, or on several side by side; it needs no network");
  auto arguments = std::make_shared<ReportArguments>();
  command.add_option("run_dirs", arguments->run_dirs, "run folders")
      .required()
      .type_name("RUN_DIR...");
  command.add_option("--out", arguments->out,
                     "page to write; by default report.html in the run folder, or "
                     "comparison.html here for several runs");
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples(
      {"fovea report runs/flowers", "fovea report runs/low_lr runs/high_lr --out comparison.html"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
