#include "fovea/core/trace.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"

namespace fovea::trace {
namespace {

using nlohmann::json;

constexpr int64_t kStepRow = 0;
constexpr int64_t kFirstCollectiveRow = 1;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

std::atomic<bool> is_recording{false};
std::mutex spans_mutex;
std::vector<Span> recorded;

// By span: rows from kFirstCollectiveRow such that none of a row overlap. spans: by begin.
std::vector<int64_t> collective_rows(const std::vector<Span>& spans) {
  std::vector<int64_t> rows, row_ends;
  for (const auto& span : spans) {
    if (span.category != kCollective) {
      rows.push_back(kStepRow);
      continue;
    }
    const auto free = std::find_if(row_ends.begin(), row_ends.end(),
                                   [&](int64_t end) { return end <= span.begin; });
    rows.push_back(kFirstCollectiveRow + (free - row_ends.begin()));
    if (free == row_ends.end()) {
      row_ends.push_back(span.end);
    } else {
      *free = span.end;
    }
  }
  return rows;
}

json metadata(const char* what, int64_t rank, int64_t row, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}};
}

}  // namespace

bool is_on() { return is_recording.load(std::memory_order_relaxed); }

void start() {
  const std::lock_guard lock(spans_mutex);
  recorded.clear();
  is_recording = true;
}

std::vector<Span> stop() {
  const std::lock_guard lock(spans_mutex);
  is_recording = false;
  std::stable_sort(recorded.begin(), recorded.end(),
                   [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return std::exchange(recorded, {});
}

int64_t now() {
  using std::chrono::duration_cast, std::chrono::microseconds;
  using Steady = std::chrono::steady_clock;
  using Wall = std::chrono::system_clock;
  static const auto offset = Wall::now().time_since_epoch() - Steady::now().time_since_epoch();
  return duration_cast<microseconds>(Steady::now().time_since_epoch() + offset).count();
}

void add(Span span) {
  const std::lock_guard lock(spans_mutex);
  if (is_recording) recorded.push_back(std::move(span));
}

Scope::Scope(const char* name, const char* category)
    : name_(name), category_(category), begin_(is_on() ? now() : -1) {}

Scope::~Scope() {
  if (begin_ >= 0) add({.name = name_, .category = category_, .begin = begin_, .end = now()});
}

std::string to_chrome(const std::vector<Span>& spans, int64_t rank) {
  const auto rows = collective_rows(spans);
  const int64_t last_row = rows.empty() ? kStepRow : *std::max_element(rows.begin(), rows.end());
  json events = json::array();
  events.push_back(metadata("process_name", rank, kStepRow, "rank " + std::to_string(rank)));
  events.push_back(metadata("thread_name", rank, kStepRow, "step"));
  for (int64_t row = kFirstCollectiveRow; row <= last_row; ++row) {
    events.push_back(metadata("thread_name", rank, row, "collectives " + std::to_string(row)));
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    const auto& span = spans[i];
    json event = {{"ph", "X"},
                  {"name", span.name},
                  {"cat", span.category},
                  {"ts", span.begin},
                  {"dur", span.end - span.begin},
                  {"pid", rank},
                  {"tid", rows[i]}};
    if (span.bytes >= 0) event["args"]["bytes"] = span.bytes;
    if (!span.group.empty()) event["args"]["axis"] = span.group;
    events.push_back(std::move(event));
  }
  return json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump();
}

std::string merge_chrome(const std::vector<std::string>& paths) {
  json merged = {{"traceEvents", json::array()}, {"displayTimeUnit", "ms"}};
  for (const auto& path : paths) {
    const auto one = parse_json(read_file(path, kMostBytes));
    if (!one.is_object() || !one.contains("traceEvents") || !one["traceEvents"].is_array()) {
      fail<DataError>(
          "{}: expected a timeline with traceEvents; the rank that wrote it was cut off", path);
    }
    for (const auto& event : one["traceEvents"]) merged["traceEvents"].push_back(event);
  }
  return merged.dump();
}

}  // namespace fovea::trace
