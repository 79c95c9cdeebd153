#include "fovea/train/report/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "fovea/core/error.h"
#include "fovea/core/number_text.h"
#include "fovea/files/atomic_file.h"
#include "fovea/train/metrics/metric_names.h"
#include "fovea/train/recipe/phase_configs.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/report/page_parts.h"
#include "fovea/train/run/progress.h"

namespace fovea::train {
namespace {

std::string duration_or_dash(double seconds) {
  return std::isfinite(seconds) ? format_duration(seconds) : format_fixed(seconds, 0);
}

std::string speed(double images_per_second) {
  return images_per_second < 10 ? format_fixed(images_per_second, 1)
                                : format_count(images_per_second);
}

html::Markup headline(const RunData& run) {
  const auto summary = summarize(run);
  std::vector<html::Figure> list;
  const auto add = [&](double value, std::string label, std::string shown) {
    if (std::isfinite(value)) list.push_back({std::move(label), std::move(shown)});
  };
  add(summary.top1, "top-1 accuracy", format_percent(summary.top1));
  add(summary.top5, "top-5 accuracy", format_percent(summary.top5));
  add(summary.best_top1, "best, at step " + format_count(summary.best_top1_step),
      format_percent(summary.best_top1));
  add(summary.val_loss, "validation loss", format_significant(summary.val_loss));
  if (run.evaluation) {
    for (const auto& [name, value] : run.evaluation->metrics) {
      if (name != "loss" && name != "top1" && name != "top5") {
        add(value, metric_label(name, run.evaluation->class_names), format_significant(value));
      }
    }
  }
  add(summary.train_loss, "training loss", format_significant(summary.train_loss));
  add(summary.images_per_second, "images per second", speed(summary.images_per_second));
  add(summary.data_wait, "waiting on data", format_fixed(100 * summary.data_wait, 1) + " %");
  add(summary.memory_bytes, "memory", format_bytes(summary.memory_bytes));
  add(summary.seconds, "duration", duration_or_dash(summary.seconds));
  if (run.metrics.last_step > 0) {
    list.push_back({"steps", format_count(run.metrics.last_step)});
    list.push_back({"epochs", format_significant(run.metrics.last_epoch)});
  }
  return list.empty() ? html::Markup{} : html::figures(list);
}

// "vit_tiny_patch16_224, idx, adamw": the settings that name a run, where they are set.
std::string essentials(const RunData& run) {
  std::vector<std::string> words;
  for (const char* key : {"model.preset", "model.name", "data.train.path", "data.train.format",
                          "optim.name", "schedule.name"}) {
    const auto place = run.config_values.find(key);
    if (place == run.config_values.end()) continue;
    if (place->second.empty() || place->second == "null") continue;
    words.push_back(place->second);
  }
  if (run.machine && !run.machine->dtype.empty())
    words.push_back(run.machine->dtype);  // what `auto` came to
  return fmt::format("{}", fmt::join(words, " \xC2\xB7 "));
}

std::string footer_text(std::span<const RunData> runs) {
  std::string version = FOVEA_VERSION;
  return fmt::format("Written by fovea {} on {} from {} run folder{}.", version, timestamp_now(),
                     runs.size(), runs.size() == 1 ? "" : "s");
}

std::string assemble(const std::string& title, const std::string& lead, const html::Markup& above,
                     const std::vector<html::PagePart>& parts, std::span<const RunData> runs) {
  return html::page(title + " \xE2\x80\x93 fovea report",
                    html::body_of_parts(title, lead, above, parts, footer_text(runs)));
}

html::Table facts(const std::string& caption) {
  return {.caption = caption, .headers = {}, .rows = {}, .num_text_columns = 2};
}

html::Markup results_table(std::span<const RunData> runs) {
  html::Table out{
      .caption = "Final metrics",
      .headers = {"run", "top-1, %", "best top-1, %", "top-5, %", "val loss", "train loss",
                  "images/s", "data wait, %", "memory", "steps", "epochs", "duration"},
      .rows = {}};
  for (const auto& run : runs) {
    const auto summary = summarize(run);
    out.rows.push_back({html::text(run.name), html::text(format_fixed(summary.top1, 2)),
                        html::text(format_fixed(summary.best_top1, 2)),
                        html::text(format_fixed(summary.top5, 2)),
                        html::text(format_significant(summary.val_loss)),
                        html::text(format_significant(summary.train_loss)),
                        html::text(speed(summary.images_per_second)),
                        html::text(format_fixed(100 * summary.data_wait, 1)),
                        html::text(format_bytes(summary.memory_bytes)),
                        html::text(format_count(run.metrics.last_step)),
                        html::text(format_significant(run.metrics.last_epoch)),
                        html::text(duration_or_dash(summary.seconds))});
  }
  return html::section("results", "Results", html::table(out));
}

html::Markup differences_table(std::span<const RunData> runs) {
  std::set<std::string> keys;
  for (const auto& run : runs) {
    for (const auto& [key, value] : run.config_values) keys.insert(key);
  }
  html::Table out{.caption = "Settings that are not the same in every run",
                  .headers = {"key"},
                  .rows = {},
                  .num_text_columns = runs.size() + 1};
  for (const auto& run : runs) out.headers.push_back(run.name);
  for (const auto& key : keys) {
    std::vector<html::Markup> row{html::text(key)};
    std::set<std::string> values;
    for (const auto& run : runs) {
      const auto place = run.config_values.find(key);
      const bool is_set = place != run.config_values.end();
      values.insert(is_set ? "=" + place->second : "");
      row.push_back(html::text(is_set ? place->second : "not set"));
    }
    if (values.size() > 1) out.rows.push_back(std::move(row));
  }
  return out.rows.empty() ? html::Markup{}
                          : html::section("differences", "Differences", html::table(out));
}

// Runs of one name, from different places, are told apart by their path.
void name_apart(std::vector<RunData>& runs) {
  std::map<std::string, int> uses;
  for (const auto& run : runs) ++uses[run.name];
  for (auto& run : runs) {
    if (uses[run.name] > 1) run.name = run.folder.string();
  }
}

// Folders of the phases of a run; none where it has none, or its config cannot be read, which
// read_run tells the reader.
std::vector<std::string> phases_in(const std::filesystem::path& folder) {
  if (!is_run_folder(folder)) return {};
  try {
    return begun_phase_folders(folder.string());
  } catch (const ConfigError&) {
    return {};
  }
}

std::filesystem::path write_phases_report(const std::filesystem::path& folder,
                                          const std::vector<std::string>& phases,
                                          const std::filesystem::path& out) {
  std::vector<RunData> runs;
  for (const auto& phase : phases) runs.push_back(read_run(phase));
  const auto path = out.empty() ? folder / "report.html" : out;
  const auto name = std::filesystem::absolute(folder / "config.yaml").parent_path().filename();
  write_file_atomic(path.string(), render_phases(name.string(), runs));
  return path;
}

}  // namespace

html::Markup config_part(const RunData& run) {
  if (run.config.empty()) return {};
  const auto code =
      html::element("pre", {{"tabindex", "0"}}, html::element("code", html::text(run.config)));
  return html::section(
      "config", "Config",
      html::element("details", html::element("summary", html::text("The resolved config")) + code));
}

html::Markup machine_part(const RunData& run) {
  if (!run.machine) return {};
  const auto& file = *run.machine;
  const auto& machine = file.machine;
  auto out = facts("Where and how it ran");
  const auto add = [&](const char* label, const std::string& value) {
    if (!value.empty()) out.rows.push_back({html::text(label), html::text(value)});
  };
  add("processor", machine.cpu);
  add("instruction sets", fmt::format("{}", fmt::join(machine.simd, ", ")));
  add("cores", machine.num_cores > 0 ? std::to_string(machine.num_cores) : "");
  add("threads used", file.threads > 0 ? std::to_string(file.threads) : "");
  add("memory",
      machine.memory_bytes > 0 ? format_bytes(static_cast<double>(machine.memory_bytes)) : "");
  add("GPU", fmt::format("{}", fmt::join(machine.gpus, "; ")));
  add("CUDA driver", machine.cuda_driver);
  add("device", file.device);
  add("dtype", file.dtype);
  add("system", machine.os);
  add("kernel", machine.kernel);
  add("host", machine.hostname);
  add("fovea", file.version);
  add("libtorch", file.torch_version);
  add("command", file.command);
  add("started", file.started);
  add("ended", file.ended.empty() ? "not yet, or it was stopped" : file.ended);
  return html::section("machine", "Machine", html::table(out));
}

html::Markup notes_part(const std::vector<std::string>& notes) {
  html::Markup out;
  for (const auto& note : notes)
    out += html::element("p", {{"class", "warning"}}, html::text(note));
  return out;
}

std::string render_report(const RunData& run) {
  std::vector<html::PagePart> parts = {{"learning", "Learning", learning_part({&run, 1})},
                                       {"speed", "Speed", speed_part({&run, 1})},
                                       {"workers", "Workers", members_part(run)}};
  if (run.evaluation) {
    const auto& evaluation = *run.evaluation;
    parts.push_back({"pictures", "Pictures", pictures_part(evaluation)});
    parts.push_back({"classes", "Classes", class_part(evaluation)});
    parts.push_back({"confusion", "Confusions", confusion_part(evaluation)});
    parts.push_back({"samples", "Sample predictions", samples_part(evaluation)});
    parts.push_back({"mistakes", "Worst mistakes", mistakes_part(evaluation)});
  }
  parts.push_back({"bad-samples", "Bad samples", bad_samples_part(run)});
  parts.push_back({"machine", "Machine", machine_part(run)});
  parts.push_back({"config", "Config", config_part(run)});
  return assemble(run.name, essentials(run), notes_part(run.notes) + headline(run), parts,
                  {&run, 1});
}

std::string render_comparison(const std::vector<RunData>& runs) {
  FOVEA_CHECK(runs.size() >= 2, "{} runs to compare; expected at least 2", runs.size());
  std::vector<std::string> notes;
  for (const auto& run : runs) {
    for (const auto& note : run.notes) notes.push_back(run.name + ": " + note);
  }
  const std::vector<html::PagePart> parts = {
      {"results", "Results", results_table(runs)},
      {"differences", "Differences", differences_table(runs)},
      {"learning", "Learning", learning_part(runs)},
      {"speed", "Speed", speed_part(runs)}};
  return assemble(fmt::format("{} runs compared", runs.size()), "", notes_part(notes), parts, runs);
}

std::string render_phases(const std::string& name, const std::vector<RunData>& phases) {
  FOVEA_CHECK(!phases.empty(), "no phase to report on; expected at least one");
  std::vector<std::string> notes;
  html::Markup links;
  for (const auto& phase : phases) {
    for (const auto& note : phase.notes) notes.push_back(phase.name + ": " + note);
    links += html::element(
        "p", html::element("a", {{"href", phase.name + "/report.html"}}, html::text(phase.name)));
  }
  std::vector<html::PagePart> parts = {
      {"results", "Results", results_table(phases)},
      {"pages", "Pages", html::section("pages", "Pages of the phases", links)}};
  if (phases.size() > 1) {
    parts.push_back({"differences", "Differences", differences_table(phases)});
  }
  parts.push_back({"learning", "Learning", learning_part(phases)});
  parts.push_back({"speed", "Speed", speed_part(phases)});
  return assemble(name, fmt::format("{} phases", phases.size()), notes_part(notes), parts, phases);
}

std::filesystem::path write_report(const std::vector<std::filesystem::path>& run_folders,
                                   const std::filesystem::path& out) {
  FOVEA_CHECK(!run_folders.empty(), "no run folder given; expected at least one");
  if (run_folders.size() == 1) {
    const auto phases = phases_in(run_folders[0]);
    if (!phases.empty()) return write_phases_report(run_folders[0], phases, out);
  }
  std::vector<RunData> runs;
  for (const auto& folder : run_folders) runs.push_back(read_run(folder));
  name_apart(runs);
  auto path = out;
  if (path.empty()) path = runs.size() == 1 ? run_folders[0] / "report.html" : "comparison.html";
  write_file_atomic(path.string(),
                    runs.size() == 1 ? render_report(runs[0]) : render_comparison(runs));
  return path;
}

}  // namespace fovea::train
