#include "fovea/elastic/solve/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/files/record_json.h"

namespace fovea::elastic {
namespace {

struct EventLine {
  double hour = -1;
  double samples = -1;
  std::string event{};
  std::string host{};
  std::string type{};
  double price_per_hour = -1;
  int64_t global_batch = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.optional_field("hour", self.hour);
    v.optional_field("samples", self.samples);
    v.field("event", self.event);
    v.optional_field("host", self.host);
    v.optional_field("type", self.type);
    v.optional_field("price_per_hour", self.price_per_hour);
    v.optional_field("global_batch", self.global_batch);
  }
};

template <class Record>
Record parsed_line(std::string_view line, const std::string& where, Record record = {}) {
  const auto raw = parse_json(line, where, 8, RepeatedNames::kRefused);
  read_record_json(JsonValue(raw, where), record);
  return record;
}

void check_range(const std::string& where, const char* key, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return;
  fail<DataError>("{}: {}: found {}; expected {} to {}", where, key, value, low, high);
}

// Lines of a text with their numbers; empty ones are left out.
template <class Body>
void for_each_line(std::string_view text, Body body) {
  int64_t number = 0;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    ++number;
    auto line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") != line.npos) body(number, line);
  }
}

// Reads events one after the other, and knows who is there.
class EventReader {
 public:
  EventReader(const Cluster& cluster, double hours) : hours_(hours) {
    for (size_t i = 0; i < cluster.hosts.size(); ++i) {
      hosts_[cluster.hosts[i].name] = i;
      names_.push_back(cluster.hosts[i].name);
      types_.push_back(cluster.hosts[i].config.type);
    }
    is_there_.assign(names_.size(), false);
  }

  void read(std::string_view text, const std::string& where, Trace& trace) {
    const auto line = parsed_line<EventLine>(text, where);
    const bool is_batch = line.event == "batch";
    if (is_batch)
      check_range(where, "global_batch", static_cast<double>(line.global_batch), 1, 1e9);
    if (is_batch && line.samples >= 0) return batch_by_samples(line, where, trace);
    if (is_batch && !trace.batches.empty()) refuse_mixed(where);
    trace.events.push_back(by_hour(line, where));
    has_batch_by_hour_ |= is_batch;
  }

 private:
  [[noreturn]] static void refuse_mixed(const std::string& where) {
    fail<DataError>(
        "{}: event: batches by the hour and by samples in one trace; expected one of them", where);
  }

  void batch_by_samples(const EventLine& line, const std::string& where, Trace& trace) const {
    if (line.hour >= 0) {
      fail<DataError>("{}: samples: stands beside hour; expected one of them", where);
    }
    check_range(where, "samples", line.samples, 0, 1e18);
    if (has_batch_by_hour_) refuse_mixed(where);
    if (!trace.batches.empty() && line.samples < trace.batches.back().samples) {
      fail<DataError>("{}: samples: found {} behind {}; expected lines in the order of samples",
                      where, line.samples, trace.batches.back().samples);
    }
    trace.batches.push_back({line.samples, line.global_batch});
  }

  TraceEvent by_hour(const EventLine& line, const std::string& where) {
    if (line.hour < 0 && line.samples >= 0) {
      fail<DataError>("{}: samples: of an event '{}'; expected hour, as only batches go by samples",
                      where, printable_start(line.event));
    }
    check_range(where, "hour", line.hour, 0, hours_);
    if (line.hour < last_) {
      fail<DataError>("{}: hour: found {} behind {}; expected lines in the order of time", where,
                      line.hour, last_);
    }
    last_ = line.hour;
    if (line.event == "price") return price(line, where);
    if (line.event == "batch") {
      return {.hour = line.hour, .kind = TraceEventKind::kBatch, .global_batch = line.global_batch};
    }
    TraceEvent event{.hour = line.hour};
    if (line.event == "join") {
      event.kind = TraceEventKind::kJoin;
    } else if (line.event == "leave") {
      event.kind = TraceEventKind::kLeave;
    } else if (line.event == "fail") {
      event.kind = TraceEventKind::kFail;
    } else {
      fail<DataError>("{}: event: found '{}'; expected join, leave, fail, price or batch{}", where,
                      printable_start(line.event),
                      or_did_you_mean(line.event, {"join", "leave", "fail", "price", "batch"}));
    }
    event.host = host(line, where);
    const bool joins = event.kind == TraceEventKind::kJoin;
    if (joins == is_there_[event.host]) {
      fail<DataError>("{}: host: '{}' {}", where, printable_start(line.host),
                      joins ? "joins, but is there" : "goes before it has joined");
    }
    is_there_[event.host] = joins;
    return event;
  }

  TraceEvent price(const EventLine& line, const std::string& where) const {
    if (std::find(types_.begin(), types_.end(), line.type) == types_.end()) {
      fail<DataError>("{}: type: no device of the cluster is '{}'{}", where,
                      printable_start(line.type), or_did_you_mean(line.type, types_));
    }
    check_range(where, "price_per_hour", line.price_per_hour, 0, 1e9);
    return {.hour = line.hour,
            .kind = TraceEventKind::kPrice,
            .type = line.type,
            .price = line.price_per_hour};
  }

  size_t host(const EventLine& line, const std::string& where) const {
    const auto found = hosts_.find(line.host);
    if (found != hosts_.end()) return found->second;
    fail<DataError>("{}: host: '{}' is not in the cluster{}", where, printable_start(line.host),
                    or_did_you_mean(line.host, names_));
  }

  double hours_, last_ = 0;
  std::map<std::string, size_t> hosts_;
  std::vector<std::string> names_, types_;
  std::vector<bool> is_there_;
  bool has_batch_by_hour_ = false;
};

}  // namespace

TraceHead parse_trace_head(std::string_view line, const std::string& source,
                           const TraceHead& otherwise) {
  const auto where = source + ":1";
  auto head = parsed_line<TraceHead>(line, where, otherwise);
  check_range(where, "global_batch", static_cast<double>(head.global_batch), 1, 1e9);
  check_range(where, "samples", head.samples, 1, 1e18);
  check_range(where, "hours", head.hours, 1e-6, 1e6);
  check_range(where, "epoch_samples", head.epoch_samples, 0, 1e18);
  if (head.epoch_samples == 0) head.epoch_samples = head.samples;
  // An epoch is at least a batch, and there is an end to them.
  constexpr double kMostEpochs = 1e6;
  const double least = std::max(std::min(head.samples, static_cast<double>(head.global_batch)),
                                head.samples / kMostEpochs);
  check_range(where, "epoch_samples", head.epoch_samples, least, 1e18);
  check_range(where, "change_s", head.change_s, 0, 1e6);
  check_range(where, "detect_s", head.detect_s, 0, 1e6);
  check_range(where, "restart_s", head.restart_s, 0, 1e6);
  check_range(where, "checkpoint_minutes", head.checkpoint_minutes, 0.01, 1e6);
  check_range(where, "slots", static_cast<double>(head.slots), 0, 1e9);
  check_range(where, "other_ms", head.other_ms, 0, 1e9);
  check_range(where, "shares_gain", head.shares_gain, 0.01, 0.9);
  check_range(where, "shares_after", static_cast<double>(head.shares_after), 8, 1e9);
  if (head.shares != "speed" && head.shares != "equal") {
    fail<DataError>("{}: shares: found '{}'; expected speed or equal", where,
                    printable_start(head.shares));
  }
  return head;
}

Trace parse_trace(std::string_view text, const std::string& source, const Cluster& cluster,
                  const TraceHead& otherwise) {
  Trace trace;
  const auto first = text.substr(0, text.find('\n'));
  trace.head = parse_trace_head(first, source, otherwise);
  EventReader reader(cluster, trace.head.hours);
  for_each_line(text, [&](int64_t number, std::string_view line) {
    if (number == 1) return;
    reader.read(line, fmt::format("{}:{}", source, number), trace);
  });
  if (trace.events.empty()) fail<DataError>("{}: no events; expected lines of joins", source);
  return trace;
}

std::string trace_text(const Trace& trace, const Cluster& cluster) {
  auto text = json_text(record_json(trace.head)) + "\n";
  for (const auto& [samples, global_batch] : trace.batches) {
    text += fmt::format("{{\"samples\": {}, \"event\": \"batch\", \"global_batch\": {}}}\n",
                        samples, global_batch);
  }
  for (const auto& event : trace.events) {
    nlohmann::ordered_json line = {{"hour", event.hour}};
    if (event.kind == TraceEventKind::kPrice) {
      line.update({{"event", "price"}, {"type", event.type}, {"price_per_hour", event.price}});
    } else if (event.kind == TraceEventKind::kBatch) {
      line.update({{"event", "batch"}, {"global_batch", event.global_batch}});
    } else {
      const bool joins = event.kind == TraceEventKind::kJoin;
      const bool fails = event.kind == TraceEventKind::kFail;
      line["event"] = joins ? "join" : fails ? "fail" : "leave";
      line["host"] = cluster.hosts[event.host].name;
    }
    text += json_text(line) + "\n";
  }
  return text;
}

}  // namespace fovea::elastic
