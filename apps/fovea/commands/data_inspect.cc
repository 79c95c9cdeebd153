// fovea data inspect RECIPE|DATA [a.b=c ...]
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/progress_counter.h"
#include "fovea/config/config.h"
#include "fovea/config/node.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/config.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data_tools/inspect/inspection_page.h"
#include "fovea/data_tools/inspect/inspection_text.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/session.h"

namespace fovea::app {
namespace {

struct InspectArguments {
  std::string source;
  std::vector<std::string> overrides;
  std::string section = "both";
  std::string out = "inspect";
  std::string tree;  // "": none; "true": with its defaults; else YAML
  data::InspectionOptions options;
  bool json = false;
};

// What is inspected, and what the model gets of it.
struct InspectSource {
  std::vector<data::InspectedSet> sets;
  std::optional<data::TransformedSets> training;
  std::optional<data::TransformedSets> evaluation;
  std::vector<std::string> notes;
};

data::SliceLayout layout_of(const data::DatasetConfig& config) {
  return data::slice_layout(config->volume_axes());
}

// A section's sets as their files hold them; of a mix each with its share of the samples.
void add_sets(const std::string& name, const data::DataSectionConfig& section,
              std::vector<data::InspectedSet>& sets) {
  if (const auto config = section.as<data::DatasetFormat>()) {
    sets.push_back({.name = name,
                    .section = name,
                    .dataset = data::build_dataset(*config, data::EmptyClasses::kAllowed),
                    .layout = layout_of(*config)});
  } else {
    for (const auto& set : section.get_if<data::MixConfig>()->sets) {
      sets.push_back({.name = name + "/" + set.name,
                      .section = name,
                      .dataset = data::build_mix_source(set),
                      .layout = layout_of(set.source)});
    }
  }
}

// The section as the model gets it. Sets of a mix may have become several, one for each variable.
std::optional<data::TransformedSets> open_transformed(
    const train::TrainConfig& config, const std::optional<data::DataSectionConfig>& section,
    bool is_training, InspectSource& source) {
  if (!section) return std::nullopt;
  try {
    auto opened = data::open_loader_setup(config.data, *section, train::input_form_of(config.model),
                                          is_training);
    const auto layout = source.sets.front().layout;
    return data::TransformedSets{opened.dataset, opened.transforms, opened.options.mix.set_sizes,
                                 std::vector(opened.transforms.size(), layout)};
  } catch (const ConfigError& error) {
    source.notes.push_back(fmt::format("data.{} is shown without its transforms: {}",
                                       is_training ? "train" : "val", error.what()));
    return std::nullopt;
  }
}

InspectSource open_recipe(const InspectArguments& arguments, data::InspectionOptions& options) {
  const auto config = load_config<train::TrainConfig>(arguments.source, arguments.overrides);
  const auto is_wanted = [&](const char* name) {
    return arguments.section == "both" || arguments.section == name;
  };
  InspectSource source;
  if (config.data.train && is_wanted("train")) add_sets("train", *config.data.train, source.sets);
  if (config.data.val && is_wanted("val")) add_sets("val", *config.data.val, source.sets);
  if (source.sets.empty()) {
    fail<ConfigError>("{}: no data.{} to inspect", arguments.source,
                      arguments.section == "both" ? "train and no data.val" : arguments.section);
  }
  if (is_wanted("train"))
    source.training = open_transformed(config, config.data.train, true, source);
  if (is_wanted("val") && options.tree) {
    source.evaluation = open_transformed(config, config.data.val, false, source);
  }
  options.channels = train::input_form_of(config.model).in_chans;
  options.seed = static_cast<uint64_t>(config.run.seed);
  return source;
}

InspectSource open_source(const InspectArguments& arguments, data::InspectionOptions& options) {
  if (is_data_recipe(arguments.source)) return open_recipe(arguments, options);
  InspectSource source;
  for (const auto& [name, config] : chosen_datasets(arguments.source, arguments.overrides)) {
    if (arguments.section != "both" && name != arguments.section) continue;
    source.sets.push_back({.name = name,
                           .section = name,
                           .dataset = data::build_dataset(config, data::EmptyClasses::kAllowed),
                           .layout = layout_of(config)});
  }
  if (source.sets.empty()) {
    fail<ConfigError>("--section {}: {} holds no such part; leave it out", arguments.section,
                      arguments.source);
  }
  return source;
}

void read_tree(const std::string& text, data::InspectionOptions& options) {
  if (text.empty()) return;
  std::string yaml = text == "true" ? "{}" : text;
  if (yaml.front() != '{') yaml = "{" + yaml + "}";
  options.tree = parse_config<data::AdaptivePatchingConfig>(yaml, "--tree");
  options.tree_has_own_range = parse_config_yaml(yaml, "--tree").find("value_range") == nullptr;
}

nlohmann::ordered_json to_json(const data::InspectedSet& set) {
  const auto& statistics = set.statistics;
  auto damaged = nlohmann::ordered_json::array();
  for (const auto& [index, reason] : statistics.damaged) {
    damaged.push_back({{"index", index}, {"reason", reason}});
  }
  auto moments = nlohmann::ordered_json::array();
  for (const auto& [mean, std, least, most] : statistics.moments) {
    moments.push_back({{"mean", mean}, {"std", std}, {"min", least}, {"max", most}});
  }
  nlohmann::ordered_json sizes = nlohmann::ordered_json::object();
  if (!statistics.sizes.empty()) {
    const auto [smallest, median, largest] = data::summarize_sizes(statistics.sizes);
    sizes = {{"smallest", smallest}, {"median", median}, {"largest", largest}};
  }
  auto channels = nlohmann::ordered_json::object();
  for (const auto& [number, count] : statistics.channels) channels[std::to_string(number)] = count;
  return {{"name", set.name},
          {"form", statistics.form == data::SampleForm::kImage ? "images" : "volumes"},
          {"num_samples", statistics.samples},
          {"num_inspected", statistics.inspected},
          {"class_names", set.dataset->class_names()},
          {"class_counts", statistics.class_counts},
          {"unlabelled", statistics.unlabelled},
          {"voxel_counts", statistics.voxel_counts},
          {"sizes", sizes},
          {"channels", channels},
          {"moments", moments},
          {"normalize", data::normalize_line(statistics)},
          {"damaged", damaged}};
}

void print_json(const data::Inspection& inspection, const std::vector<std::string>& files) {
  auto sets = nlohmann::ordered_json::array();
  for (const auto& set : inspection.sets) sets.push_back(to_json(set));
  const auto& found = inspection.duplicates;
  auto sections = nlohmann::ordered_json::array();
  for (const auto& one : found.sections) {
    sections.push_back({{"section", one.section}, {"groups", one.groups}, {"copies", one.copies}});
  }
  const nlohmann::ordered_json out = {
      {"sets", sets},
      {"duplicates",
       {{"sections", sections},
        {"shared_samples", found.shared_samples},
        {"groups_with_several_labels", found.groups_with_several_labels}}},
      {"notes", inspection.notes},
      {"files", files}};
  say_as_is("{}\n", json_text(out));
}

void run(const InspectArguments& arguments) {
  auto options = arguments.options;
  read_tree(arguments.tree, options);
  auto source = open_source(arguments, options);
  std::unique_ptr<ProgressCounter> progress;
  std::string reading;
  options.progress = [&](const std::string& set, int64_t done, int64_t total) {
    if (!progress || reading != set) {
      if (progress) progress->clear();
      reading = set;
      progress = std::make_unique<ProgressCounter>(set.empty() ? "reading" : "reading " + set,
                                                   arguments.json);
    }
    progress->callback()(done, total);
  };
  auto inspection =
      data::inspect(std::move(source.sets), source.training, source.evaluation, options);
  if (progress) progress->clear();
  inspection.notes.insert(inspection.notes.begin(), source.notes.begin(), source.notes.end());
  const auto files = data::write_inspection(inspection, arguments.source, arguments.out);
  if (arguments.json) {
    print_json(inspection, files);
  } else {
    say("{}\n", data::inspection_text(inspection));
    for (const auto& file : files) say("wrote {}\n", file);
  }
  if (inspection.has_damaged()) throw ExitRequest{static_cast<int>(ExitCode::kData)};
}

}  // namespace

void add_data_inspect(Command group) {
  auto command = group.add_command(
      "inspect",
      "What is in a data set: classes, sizes, mean and deviation, unreadable files, duplicates "
      "between train and val, pictures; exit code 4 where a sample cannot be read");
  auto arguments = std::make_shared<InspectArguments>();
  auto& options = arguments->options;
  command.add_option("source", arguments->source, kDataSourceHelp)
      .required()
      .type_name("RECIPE|DATA");
  add_overrides(command, arguments->overrides, "data.train.path=photos");
  command
      .add_option("--section", arguments->section,
                  "of a recipe, or of a folder with several: which data set")
      .one_of({"train", "val", "test", "both"})
      .show_default();
  command.add_option("--out", arguments->out, "folder for inspect.html and the pictures")
      .show_default();
  command.add_option("--samples", options.samples, "pictures of each set")
      .in_range(0, 10000)
      .show_default();
  command.add_option("--rows", options.rows, "augmented samples").in_range(1, 1000).show_default();
  command.add_option("--draws", options.draws, "pictures of each augmented sample")
      .in_range(1, 100)
      .show_default();
  command
      .add_option("--max-samples", options.max_samples,
                  "read only so many samples of each set, evenly spread; 0: all")
      .non_negative()
      .show_default();
  command.add_flag("--tree", arguments->tree,
                   "also draw adaptive patches, with the defaults or with "
                   "--tree='{fixed_length: 256, criterion: variance}'");
  command.add_option("--threads", options.threads, "0: one for each core").in_range(0, 1024);
  command.add_flag("--json", arguments->json, "print one JSON object and nothing else");
  command.examples(
      {"fovea data inspect photos",
       "fovea data inspect recipes/fashion_mnist/vit.yaml --section train --out look"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
