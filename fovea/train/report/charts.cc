// Curves of runs, and the numbers drawn from them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "fovea/train/metrics/metric_names.h"
#include "fovea/train/report/page_parts.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::train {
namespace {

constexpr size_t kLastLines = 10;  // averaged for the final training loss

// What has a chart, or no chart, of its own.
const std::set<std::string> kKnown = {
    "epoch",      "loss",         "top1",      "top5",         "lr",           "images_per_second",
    "data_wait",  "memory_bytes", "grad_norm", "global_batch", "generation",   "time",
    "similarity", "noise_scale",  "mfu",       "comm_wait",    "slowest_rank", "slowest_rank_wait"};

struct Chart {
  PlotOptions options;
  struct Source {
    std::string split, metric, name;
  };
  std::vector<Source> sources;
  bool is_noisy = true;  // values of single steps, drawn smoothed
  double scale = 1;
};

double last_finite(const Curve* curve) {
  if (!curve) return kNan;
  const auto finite = finite_points(*curve);
  return finite.size() > 0 ? finite.y.back() : kNan;
}

double mean_of_last(const Curve* curve) {
  if (!curve) return kNan;
  const auto finite = finite_points(*curve);
  const size_t count = std::min(kLastLines, finite.size());
  double sum = 0;
  for (size_t i = finite.size() - count; i < finite.size(); ++i) sum += finite.y[i];
  return count > 0 ? sum / static_cast<double>(count) : kNan;
}

double median(const Curve* curve) { return curve ? quantile(curve->y, 0.5) : kNan; }

PlotSeries series_of(const RunData& run, const Chart& chart, const Chart::Source& source,
                     const std::string& name, int color) {
  PlotSeries series{.name = name,
                    .curve = {},
                    .color = color,
                    .is_noisy = chart.is_noisy && source.split == "train"};
  if (const auto* curve = run.metrics.find(source.split, source.metric)) {
    series.curve = *curve;
    for (double& value : series.curve.y) value *= chart.scale;
  }
  return series;
}

html::Markup plot_single(const RunData& run, const Chart& chart) {
  std::vector<PlotSeries> all;
  int color = 0;
  for (const auto& source : chart.sources) {
    all.push_back(series_of(run, chart, source, source.name, color++));
  }
  return line_chart(chart.options, all);
}

// One chart a source, with a line a run.
html::Markup plot_overlaid(std::span<const RunData> runs, const Chart& chart) {
  html::Markup out;
  for (const auto& source : chart.sources) {
    std::vector<PlotSeries> all;
    int color = 0;
    for (const auto& run : runs) {
      all.push_back(series_of(run, chart, source, run.name, color++));
      // Faint lines of several runs over each other hide what they show.
      auto& last = all.back();
      if (last.is_noisy && last.curve.size() > 20) {
        last.curve = smooth(last.curve, 0.02 * static_cast<double>(last.curve.size()));
        last.is_noisy = false;
      }
    }
    auto options = chart.options;
    if (chart.sources.size() > 1) options.title += ", " + source.name;
    out += line_chart(options, all);
  }
  return out;
}

// Large charts, two beside each other, then small ones, three.
html::Markup plot(std::span<const RunData> runs, const std::vector<Chart>& charts) {
  html::Markup large, small;
  for (const auto& chart : charts) {
    (chart.options.is_small ? small : large) +=
        runs.size() == 1 ? plot_single(runs[0], chart) : plot_overlaid(runs, chart);
  }
  html::Markup out;
  if (!large.empty()) out += html::element("div", {{"class", "charts"}}, large);
  if (!small.empty()) out += html::element("div", {{"class", "charts small"}}, small);
  return out;
}

// Those of the first run that has them: runs that are compared have the same classes.
std::vector<std::string> class_names_of(std::span<const RunData> runs) {
  for (const auto& run : runs) {
    if (run.evaluation && !run.evaluation->class_names.empty()) return run.evaluation->class_names;
  }
  return {};
}

std::string title_of(const std::string& metric, const std::vector<std::string>& class_names) {
  auto title = metric_label(metric, class_names);
  if (title != metric) title[0] = static_cast<char>(std::toupper(title[0]));
  return title;
}

// Metrics that tasks log besides the known ones ("dice"), each in a chart with a line a split.
std::vector<Chart> other_charts(std::span<const RunData> runs) {
  std::map<std::string, std::set<std::string>> splits;
  for (const auto& run : runs) {
    for (const auto& [split, curves] : run.metrics.curves) {
      for (const auto& [metric, curve] : curves) {
        if (!kKnown.contains(metric)) splits[metric].insert(split);
      }
    }
  }
  const auto class_names = class_names_of(runs);
  std::vector<Chart> charts;
  for (const auto& [metric, of_metric] : splits) {
    Chart chart{.options = {.title = title_of(metric, class_names), .is_small = true},
                .sources = {}};
    for (const auto& split : of_metric) {
      chart.sources.push_back({split, metric, split == "val" ? "validation" : split});
    }
    charts.push_back(chart);
  }
  return charts;
}

double run_seconds(const RunData& run) {
  if (!run.machine) return kNan;
  return seconds_of_timestamp(run.machine->ended) - seconds_of_timestamp(run.machine->started);
}

}  // namespace

RunSummary summarize(const RunData& run) {
  const auto& metrics = run.metrics;
  RunSummary out{};
  out.top1 = last_finite(metrics.find("val", "top1"));
  out.top5 = last_finite(metrics.find("val", "top5"));
  out.val_loss = last_finite(metrics.find("val", "loss"));
  if (run.evaluation) {
    out.top1 = run.evaluation->metric("top1");
    out.top5 = run.evaluation->metric("top5");
    out.val_loss = run.evaluation->metric("loss");
  }
  out.best_top1 = out.best_top1_step = kNan;
  if (const auto* curve = metrics.find("val", "top1")) {
    const auto finite = finite_points(*curve);
    const auto best = std::max_element(finite.y.begin(), finite.y.end());
    if (best != finite.y.end()) {
      out.best_top1 = *best;
      out.best_top1_step = finite.x[static_cast<size_t>(best - finite.y.begin())];
    }
  }
  out.train_loss = mean_of_last(metrics.find("train", "loss"));
  out.images_per_second = median(metrics.find("train", "images_per_second"));
  out.data_wait = median(metrics.find("train", "data_wait"));
  const auto* memory = metrics.find("train", "memory_bytes");
  out.memory_bytes = memory ? quantile(memory->y, 1.0) : kNan;
  out.seconds = run_seconds(run);
  return out;
}

html::Markup learning_part(std::span<const RunData> runs) {
  std::vector<Chart> charts = {
      {{.title = "Loss", .may_be_log = true},
       {{"train", "loss", "train"}, {"val", "loss", "validation"}}},
      {{.title = "Top-1 accuracy, %", .is_percent = true},
       {{"train", "top1", "train"}, {"val", "top1", "validation"}}},
      {{.title = "Top-5 accuracy, %", .is_small = true, .is_percent = true},
       {{"val", "top5", "validation"}}},
      {{.title = "Learning rate", .is_small = true, .from_zero = true},
       {{"train", "lr", "learning rate"}},
       false},
      {{.title = "Global batch, samples", .is_small = true, .from_zero = true},
       {{"train", "global_batch", "global batch"}, {"train", "noise_scale", "noise scale"}},
       false},
      {{.title = "Similarity of a batch's halves", .is_small = true, .from_zero = true},
       {{"train", "similarity", "mean since the batch changed"}},
       false},
      {{.title = "Gradient norm", .is_small = true, .from_zero = true, .may_be_log = true},
       {{"train", "grad_norm", "before clipping"}}}};
  for (auto& chart : other_charts(runs)) charts.push_back(std::move(chart));
  const auto plots = plot(runs, charts);
  if (plots.empty()) return {};
  return html::section(
      "learning", "Learning",
      html::element("p", {{"class", "note"}},
                    html::text("Bold lines of training values are moving averages over 2 % of the "
                               "run. Point at a chart, or tap it, for its values.")) +
          plots);
}

html::Markup speed_part(std::span<const RunData> runs) {
  const std::vector<Chart> charts = {
      {{.title = "Images per second", .is_small = true, .from_zero = true},
       {{"train", "images_per_second", "training"}}},
      {{.title = "Time spent waiting on data, %", .is_small = true, .from_zero = true},
       {{"train", "data_wait", "data wait"}},
       true,
       100},
      {{.title = "Time in communication, %", .is_small = true, .from_zero = true},
       {{"train", "comm_wait", "mean over the ranks"},
        {"train", "slowest_rank_wait", "waiting for the slowest rank"}},
       true,
       100},
      {{.title = "MFU, %", .is_small = true, .from_zero = true},
       {{"train", "mfu", "MFU"}},
       true,
       100},
      {{.title = "Memory, GiB", .is_small = true, .from_zero = true},
       {{"train", "memory_bytes", "memory"}},
       false,
       1.0 / (1 << 30)}};
  const auto plots = plot(runs, charts);
  return plots.empty() ? plots : html::section("speed", "Speed", plots);
}

}  // namespace fovea::train
