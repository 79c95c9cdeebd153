#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/number_text.h"
#include "fovea/train/report/page_parts.h"

namespace fovea::train {
namespace {

constexpr size_t kShownBadSamples = 100;

std::string what_was_done(const std::string& policy) {
  return policy == "substitute" ? "another sample took the place of each" : "they were left out";
}

html::Markup table_of(const std::string& split, const BadSamplesOfSplit& found) {
  const size_t count = found.samples.size();
  html::Table out{
      .caption = fmt::format("{}: {} bad sample{}; policy {}: {}", split, count,
                             count == 1 ? "" : "s", found.policy, what_was_done(found.policy)),
      .headers = {"sample", "reason", "times it was due"},
      .rows = {},
      .num_text_columns = 2};
  for (size_t i = 0; i < std::min(count, kShownBadSamples); ++i) {
    const auto& sample = found.samples[i];
    out.rows.push_back({html::text(sample.name), html::text(sample.reason),
                        html::text(format_count(static_cast<double>(sample.times)))});
  }
  auto shown = html::table(out);
  if (count > kShownBadSamples) {
    shown += html::element("p", html::text(fmt::format("The other {} stand in bad_samples.json.",
                                                       count - kShownBadSamples)));
  }
  return shown;
}

}  // namespace

html::Markup bad_samples_part(const RunData& run) {
  html::Markup out;
  for (const auto& [split, found] : run.bad_samples) {
    if (!found.samples.empty()) out += table_of(split, found);
  }
  if (out.empty()) return {};
  if (run.evaluation && run.evaluation->num_left_out > 0) {
    out += html::element(
        "p", html::text(fmt::format("The last evaluation is of {} samples; {} that could not "
                                    "be read were left out.",
                                    run.evaluation->num_samples, run.evaluation->num_left_out)));
  }
  return html::section("bad-samples", "Bad samples", out);
}

}  // namespace fovea::train
