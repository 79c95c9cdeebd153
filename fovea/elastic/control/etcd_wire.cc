#include "fovea/elastic/control/etcd_wire.h"

#include <charconv>
#include <utility>

#include "fovea/core/base64.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

using nlohmann::json;

void write_range(json& out, const KeyRange& range) {
  out["key"] = base64_encode(range.first);
  if (!range.end.empty()) out["range_end"] = base64_encode(range.end);
}

json to_json(const EtcdCompare& compare) {
  json out = {{"key", base64_encode(compare.key)}};
  const auto number = std::to_string(compare.number);
  switch (compare.target) {
    case EtcdCompare::Target::kValue:
      out["target"] = "VALUE";
      out["value"] = base64_encode(compare.value);
      break;
    case EtcdCompare::Target::kVersion:
      out["target"] = "VERSION";
      out["version"] = number;
      break;
    case EtcdCompare::Target::kCreateRevision:
      out["target"] = "CREATE";
      out["create_revision"] = number;
      break;
    case EtcdCompare::Target::kModRevision:
      out["target"] = "MOD";
      out["mod_revision"] = number;
      break;
    case EtcdCompare::Target::kLease:
      out["target"] = "LEASE";
      out["lease"] = number;
      break;
  }
  static constexpr const char* kNames[] = {"EQUAL", "NOT_EQUAL", "LESS", "GREATER"};
  out["result"] = kNames[static_cast<size_t>(compare.result)];
  return out;
}

json put_json(const EtcdOperation& put) {
  json out = {{"key", base64_encode(put.range.first)}, {"value", base64_encode(put.value)}};
  if (put.lease != 0) out["lease"] = std::to_string(put.lease);
  return out;
}

json to_json(const std::vector<EtcdOperation>& operations) {
  auto out = json::array();
  for (const auto& operation : operations) {
    if (operation.kind == EtcdOperation::Kind::kPut) {
      out.push_back({{"request_put", put_json(operation)}});
      continue;
    }
    json range;
    write_range(range, operation.range);
    const bool is_delete = operation.kind == EtcdOperation::Kind::kDelete;
    out.push_back({{is_delete ? "request_delete_range" : "request_range", range}});
  }
  return out;
}

// A number of 64 bits: a text, or a number where somebody's gateway has it so; 0 where it is left
// out.
int64_t number_at(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  if (!found) return 0;
  if (!found->raw().is_string()) return found->integer();
  const auto text = found->text();
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) found->refuse("a whole number");
  return number;
}

std::string bytes_at(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  if (!found) return {};
  try {
    return base64_decode(found->text());
  } catch (const DataError&) {
    found->refuse("base64");
  }
}

bool flag_at(const JsonValue& object, std::string_view key) {
  const auto found = object.find(key);
  return found && found->boolean();
}

int64_t revision_of(const JsonValue& reply) {
  const auto header = reply.find("header");
  return header ? number_at(*header, "revision") : 0;
}

KeyValue read_key_value(const JsonValue& value) {
  return {.key = bytes_at(value, "key"),
          .value = bytes_at(value, "value"),
          .create_revision = number_at(value, "create_revision"),
          .mod_revision = number_at(value, "mod_revision"),
          .version = number_at(value, "version"),
          .lease = number_at(value, "lease")};
}

std::vector<KeyValue> read_values(const JsonValue& reply) {
  std::vector<KeyValue> values;
  if (const auto list = reply.find("kvs")) {
    for (const auto& item : list->items()) values.push_back(read_key_value(item));
  }
  return values;
}

TxnResult::Part read_part(const JsonValue& response) {
  TxnResult::Part part;
  if (const auto range = response.find("response_range")) part.values = read_values(*range);
  if (const auto deleted = response.find("response_delete_range")) {
    part.num_deleted = number_at(*deleted, "deleted");
  }
  return part;
}

WatchEvent read_event(const JsonValue& value) {
  WatchEvent event;
  if (const auto type = value.find("type")) event.is_delete = type->text() == "DELETE";
  event.kv = read_key_value(value.at("kv"));
  return event;
}

}  // namespace

KeyRange one_key(std::string key) { return {.first = std::move(key)}; }

KeyRange with_prefix(std::string prefix) {
  // The first text behind all that begin so: the last byte that can grow, grown by one.
  auto end = prefix;
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  FOVEA_CHECK(!end.empty(), "a prefix of keys is empty");
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return {.first = std::move(prefix), .end = std::move(end)};
}

EtcdCompare is_absent(std::string key) { return {.key = std::move(key)}; }

EtcdCompare is_at_revision(std::string key, int64_t mod_revision) {
  return {
      .key = std::move(key), .target = EtcdCompare::Target::kModRevision, .number = mod_revision};
}

EtcdOperation put_key(std::string key, std::string value, int64_t lease) {
  return {.kind = EtcdOperation::Kind::kPut,
          .range = one_key(std::move(key)),
          .value = std::move(value),
          .lease = lease};
}

EtcdOperation delete_keys(KeyRange range) {
  return {.kind = EtcdOperation::Kind::kDelete, .range = std::move(range)};
}

EtcdOperation read_keys(KeyRange range) {
  return {.kind = EtcdOperation::Kind::kRange, .range = std::move(range)};
}

std::string range_request(const KeyRange& range) {
  json out;
  write_range(out, range);
  return json_text(out);
}

std::string put_request(const EtcdOperation& put) { return json_text(put_json(put)); }

std::string txn_request(const EtcdTxn& txn) {
  auto compares = json::array();
  for (const auto& compare : txn.compares) compares.push_back(to_json(compare));
  return json_text(json{
      {"compare", compares}, {"success", to_json(txn.success)}, {"failure", to_json(txn.failure)}});
}

std::string lease_request(int64_t id) { return json_text(json{{"ID", std::to_string(id)}}); }

std::string grant_request(int64_t seconds) {
  return json_text(json{{"TTL", std::to_string(seconds)}});
}

std::string watch_request(const KeyRange& range, int64_t from_revision) {
  json out = {{"start_revision", std::to_string(from_revision)}};
  write_range(out, range);
  return json_text(json{{"create_request", out}});
}

std::string login_request(const std::string& user, const std::string& password) {
  return json_text(json{{"name", user}, {"password", password}});
}

RangeResult read_range_reply(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source);
  const JsonValue reply(raw, source);
  return {.revision = revision_of(reply), .values = read_values(reply)};
}

TxnResult read_txn_reply(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source);
  const JsonValue reply(raw, source);
  TxnResult result{.revision = revision_of(reply), .is_success = flag_at(reply, "succeeded")};
  if (const auto responses = reply.find("responses")) {
    for (const auto& response : responses->items()) result.parts.push_back(read_part(response));
  }
  return result;
}

WatchReply read_watch_reply(std::string_view line, const std::string& source) {
  const auto raw = parse_json(line, source);
  const JsonValue whole(raw, source);
  if (const auto error = whole.find("error")) {
    WatchReply ended{.is_canceled = true, .cancel_reason = "no reason given"};
    if (error->raw().is_object()) error->read("message", ended.cancel_reason);
    ended.cancel_reason = printable_start(ended.cancel_reason, 200);
    return ended;
  }
  const auto result = whole.at("result");
  WatchReply reply{.revision = revision_of(result),
                   .is_created = flag_at(result, "created"),
                   .is_canceled = flag_at(result, "canceled"),
                   .compact_revision = number_at(result, "compact_revision")};
  if (const auto reason = result.find("cancel_reason")) {
    reply.cancel_reason = printable_start(reason->text(), 200);
  }
  if (const auto events = result.find("events")) {
    for (const auto& event : events->items()) reply.events.push_back(read_event(event));
  }
  return reply;
}

LeaseReply read_lease_reply(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source);
  const JsonValue reply(raw, source);
  return {.id = number_at(reply, "ID"), .ttl = number_at(reply, "TTL")};
}

LeaseReply read_keep_alive_reply(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source);
  const auto reply = JsonValue(raw, source).at("result");
  return {.id = number_at(reply, "ID"), .ttl = number_at(reply, "TTL")};
}

std::string read_login_reply(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source);
  auto token = JsonValue(raw, source).at("token").text();
  // It goes into a header: no line may be added to one.
  for (const unsigned char byte : token) {
    if (byte <= ' ' || byte >= 0x7f) fail<DataError>("{}: a token that is none", source);
  }
  return token;
}

EtcdRefusal read_refusal(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source);
  const JsonValue reply(raw, source);
  EtcdRefusal refusal{.code = static_cast<EtcdCode>(number_at(reply, "code"))};
  refusal.message = printable_start(reply.at("error").text(), 200);
  return refusal;
}

}  // namespace fovea::elastic
