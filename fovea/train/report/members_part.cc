// Who took part in an elastic run, over its steps.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/train/report/page_parts.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::train {
namespace {

constexpr double kMemberRow = 18, kMemberBar = 12, kMembersTop = 8, kMembersWidth = 900,
                 kMostName = 190, kNameCharacter = 6.8;
constexpr size_t kMostRows = 64, kMostLines = 200;

// Steps [begin, end) in which a worker was a member.
struct Stay {
  double begin, end;
  int64_t generation;
};
// By worker, those that came first in front.
using Stays = std::vector<std::pair<std::string, std::vector<Stay>>>;

Stays stays_of(const std::vector<MemberChange>& changes, double last_step) {
  Stays stays;
  std::map<std::string, size_t> rows;
  for (size_t i = 0; i < changes.size(); ++i) {
    const auto& change = changes[i];
    const auto begin = static_cast<double>(change.step);
    const double end = i + 1 < changes.size() ? static_cast<double>(changes[i + 1].step)
                                              : std::max(last_step, begin);
    for (const auto& worker : change.workers) {
      const auto [row, is_new] = rows.emplace(worker, stays.size());
      if (is_new) stays.emplace_back(worker, std::vector<Stay>());
      stays[row->second].second.push_back({begin, std::max(begin, end), change.generation});
    }
  }
  return stays;
}

class MembersChart {
 public:
  MembersChart(Stays stays, double last_step)
      : stays_(std::move(stays)), last_(std::max(last_step, 1.0)) {
    size_t longest = 4;
    for (const auto& [worker, list] : stays_) longest = std::max(longest, worker.size());
    left_ = 10 + std::min(kMostName, kNameCharacter * static_cast<double>(longest));
    bottom_ = kMembersTop + kMemberRow * static_cast<double>(stays_.size());
  }

  html::Markup draw() const {
    html::Markup body = axis();
    for (size_t row = 0; row < stays_.size(); ++row) body += bars(row);
    return html::element(
        "svg",
        {{"viewBox", fmt::format("0 0 {:.0f} {:.0f}", kMembersWidth, bottom_ + 42)},
         {"role", "img"},
         {"aria-label",
          "workers by the steps they took part in; the table gives the same in words"}},
        body);
  }

 private:
  double place(double step) const { return left_ + step / last_ * (kMembersWidth - 12 - left_); }

  html::Markup axis() const {
    html::Markup out;
    const auto ticks = linear_ticks(0, last_, 8);
    const auto labels = tick_labels(ticks);
    for (size_t i = 0; i < ticks.size(); ++i) {
      const auto x = coordinate(place(ticks[i]));
      out += html::svg_element("line", {{"class", "grid"},
                                        {"x1", x},
                                        {"y1", coordinate(kMembersTop)},
                                        {"x2", x},
                                        {"y2", coordinate(bottom_ + 4)}});
      out += html::element("text",
                           {{"x", x}, {"y", coordinate(bottom_ + 17)}, {"text-anchor", "middle"}},
                           html::text(labels[i]));
    }
    return out + html::element("text",
                               {{"x", coordinate(kMembersWidth - 12)},
                                {"y", coordinate(bottom_ + 35)},
                                {"text-anchor", "end"}},
                               html::text("step"));
  }

  html::Markup bars(size_t row) const {
    const auto& [worker, list] = stays_[row];
    const double y =
        kMembersTop + kMemberRow * static_cast<double>(row) + (kMemberRow - kMemberBar) / 2;
    const auto room = static_cast<size_t>((left_ - 10) / kNameCharacter);
    auto name = worker;
    if (name.size() > room) name = name.substr(0, room - 1) + "\xE2\x80\xA6";
    auto out = html::element("text",
                             {{"x", coordinate(left_ - 6)},
                              {"y", coordinate(y + kMemberBar - 2)},
                              {"text-anchor", "end"}},
                             html::text(name));
    for (const auto& stay : list) {
      const double x = place(stay.begin);
      const auto words = fmt::format("{}: generation {}, steps {:.0f} to {:.0f}", worker,
                                     stay.generation, stay.begin, stay.end);
      out += html::element("rect",
                           {{"class", fmt::format("f{}", row % 8)},
                            {"x", coordinate(x)},
                            {"y", coordinate(y)},
                            {"width", coordinate(std::max(1.0, place(stay.end) - x - 1))},
                            {"height", coordinate(kMemberBar)}},
                           html::element("title", html::text(words)));
    }
    return out;
  }

  Stays stays_;
  double last_, left_ = 0, bottom_ = 0;
};

// "+ c", "- b": against the generation before.
std::string difference(const MemberChange* before, const MemberChange& now) {
  const std::set<std::string> then =
      before ? std::set(before->workers.begin(), before->workers.end()) : std::set<std::string>();
  const std::set<std::string> here(now.workers.begin(), now.workers.end());
  std::string text;
  for (const auto& worker : here) {
    if (!then.contains(worker)) text += "+ " + worker + "  ";
  }
  for (const auto& worker : then) {
    if (!here.contains(worker)) text += "\xE2\x88\x92 " + worker + "  ";
  }
  return text;
}

html::Markup table_of(const std::vector<MemberChange>& changes) {
  html::Table table{.caption = "",
                    .headers = {"generation", "reason", "who", "workers", "from step",
                                "without a step, s", "steps lost"},
                    .rows = {},
                    .num_text_columns = 3};
  for (size_t i = 0; i < std::min(changes.size(), kMostLines); ++i) {
    const auto& change = changes[i];
    table.rows.push_back({html::text(std::to_string(change.generation)), html::text(change.reason),
                          html::text(difference(i > 0 ? &changes[i - 1] : nullptr, change)),
                          html::text(std::to_string(change.workers.size())),
                          html::text(std::to_string(change.step)),
                          html::text(fmt::format("{:.2f}", change.pause_s)),
                          html::text(std::to_string(change.steps_lost))});
  }
  return html::element("div", {{"class", "scroll"}, {"tabindex", "0"}}, html::table(table));
}

}  // namespace

html::Markup members_part(const RunData& run) {
  const auto& changes = run.member_changes;
  if (changes.empty()) return {};
  auto stays = stays_of(changes, run.metrics.last_step);
  const auto num_workers = stays.size();
  if (stays.size() > kMostRows) stays.resize(kMostRows);
  auto caption = fmt::format("{} workers, {} generations", num_workers, changes.size());
  if (num_workers > kMostRows) caption += fmt::format("; the first {} are drawn", kMostRows);
  if (changes.size() > kMostLines) caption += fmt::format("; the first {} are listed", kMostLines);
  const auto chart =
      html::element("figure", {{"class", "members"}},
                    html::element("figcaption", html::text(caption)) +
                        MembersChart(std::move(stays), run.metrics.last_step).draw());
  return html::section("workers", "Workers", chart + table_of(changes));
}

}  // namespace fovea::train
