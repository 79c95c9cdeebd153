// fovea config show|schema|diff|reference; import: config_import.cc
#include "fovea/config/config.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/config_import.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/reference.h"
#include "fovea/config/schema.h"
#include "fovea/core/json.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::app {
namespace {

struct ConfigArguments {
  std::string source;
  std::string other;
  std::vector<std::string> overrides;
};

void add_show(Command config) {
  auto command = config.add_command(
      "show", "Print the resolved config: every key, with defaults and overrides");
  auto arguments = std::make_shared<ConfigArguments>();
  command.add_option("source", arguments->source, "recipe (YAML) or run folder")
      .required()
      .type_name("RECIPE|RUN_DIR");
  add_overrides(command, arguments->overrides, "optim.lr=3e-4");
  command.examples({"fovea config show recipes/fashion_mnist/vit.yaml",
                    "fovea config show runs/flowers optim.lr=3e-4"});
  command.callback([arguments] {
    say_as_is("{}", dump_config(train::load_any_config(arguments->source, arguments->overrides)));
  });
}

void add_diff(Command config) {
  auto command = config.add_command("diff", "Print the keys in which two configs differ");
  auto arguments = std::make_shared<ConfigArguments>();
  command.add_option("left", arguments->source, "recipe or run folder")
      .required()
      .type_name("LEFT");
  command.add_option("right", arguments->other, "recipe or run folder")
      .required()
      .type_name("RIGHT");
  command.examples({"fovea config diff runs/low_lr runs/high_lr",
                    "fovea config diff recipes/fashion_mnist/vit.yaml runs/flowers"});
  command.callback([arguments] {
    for (const auto& change : config_diff(train::load_any_config(arguments->source),
                                          train::load_any_config(arguments->other))) {
      say("{}: {} -> {}\n", change.key, change.a.value_or("(none)"), change.b.value_or("(none)"));
    }
  });
}

}  // namespace

void add_config(Command app) {
  auto command = app.add_command("config", "Look at recipes and their keys");
  command.require_command();
  command.examples({"fovea config show recipes/fashion_mnist/vit.yaml",
                    "fovea config import args.yaml --from timm --out recipe.yaml"});
  add_show(command);
  command.add_command("schema", "Print the JSON schema of a recipe, for editors")
      .examples({"fovea config schema > recipe.schema.json"})
      .callback([] { say_as_is("{}\n", json_text(config_schema<train::TrainConfig>(), 2)); });
  add_diff(command);
  add_config_import(command);
  command.add_command("reference", "Print the reference of commands, flags and keys as Markdown")
      .examples({"fovea config reference > reference.md"})
      .callback([app] { say_as_is("{}", reference_page(app)); });
}

}  // namespace fovea::app
