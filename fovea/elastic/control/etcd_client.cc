#include "fovea/elastic/control/etcd_client.h"

#include <algorithm>
#include <utility>

#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int64_t kOk = 200;

bool is_late_token(const EtcdRefusal& refusal) {
  return refusal.code == EtcdCode::kUnauthenticated ||
         refusal.message.find("revision of auth store is old") != std::string::npos;
}

bool is_of_login(const EtcdRefusal& refusal) {
  return refusal.code == EtcdCode::kUnauthenticated ||
         refusal.message.find("user name is empty") != std::string::npos ||
         refusal.message.find("authentication failed") != std::string::npos;
}

}  // namespace

EtcdClient::EtcdClient(EtcdPlace place, milliseconds timeout)
    : place_(std::move(place)), timeout_(timeout) {
  FOVEA_CHECK(!place_.endpoints.empty(), "no address of etcd");
}

std::unique_ptr<EtcdClient> EtcdClient::another(milliseconds timeout) const {
  return std::make_unique<EtcdClient>(place_, timeout);
}

net::HttpRequest EtcdClient::post_to_endpoint(const Call& call, milliseconds timeout) const {
  net::HttpHeaders headers{{"Content-Type", "application/json"}};
  if (!token_.empty()) headers.emplace_back("Authorization", token_);
  // Proxies of the environment are not asked: what is controlled is on this network. A host that is
  // gone is noticed after some 4 s.
  return {.method = "POST",
          .url = endpoint() + call.path,
          .headers = std::move(headers),
          .body = call.body,
          .ca_file = place_.ca_file,
          .timeout = timeout,
          .probe_after = std::chrono::seconds(1)};
}

void EtcdClient::log_in(milliseconds timeout) {
  token_.clear();
  const auto reply = http_.perform(post_to_endpoint(
      {.path = "/v3/auth/authenticate", .body = login_request(place_.user, place_.password)},
      timeout));
  if (reply.status == kOk) {
    token_ = read_login_reply(reply.body, endpoint());
    return;
  }
  // A user for an etcd that asks for none does no harm.
  if (reply.status != 412) refuse(reply);
  place_.user.clear();
}

void EtcdClient::refuse(const EtcdRefusal& refusal) const {
  using Kind = EtcdError::Kind;
  const auto told = fmt::format("etcd at {}: {}", endpoint(), refusal.message);
  if (is_of_login(refusal)) {
    throw EtcdError(
        Kind::kDenied, true,
        fmt::format("{}; set {} and {}", told, kEtcdUserVariable, kEtcdPasswordVariable));
  }
  switch (refusal.code) {
    case EtcdCode::kPermissionDenied:
      throw EtcdError(Kind::kDenied, true,
                      fmt::format("{} (user '{}'); grant it: etcdctl role grant-permission ROLE "
                                  "--prefix=true readwrite /fovea/",
                                  told, printable_start(place_.user)));
    case EtcdCode::kResourceExhausted:
      throw EtcdError(Kind::kFull, true,
                      told +
                          "; it takes no more until somebody has made room: etcdctl compact, "
                          "defrag, then alarm disarm, or a larger --quota-backend-bytes");
    case EtcdCode::kNotFound:
      throw EtcdError(Kind::kNotFound, true, told);
    case EtcdCode::kUnavailable:
      throw EtcdError(Kind::kUnreachable, false, refusal.message);
    default:
      throw EtcdError(Kind::kRefused, true, told);
  }
}

void EtcdClient::refuse(const net::HttpReply& reply) const {
  EtcdRefusal refusal;
  try {
    refusal = read_refusal(reply.body, endpoint());
  } catch (const DataError&) {
    throw EtcdError(EtcdError::Kind::kRefused, true,
                    fmt::format("{} answers, but not as etcd does: HTTP {}, '{}'; expected etcd "
                                "3.4 or later with its JSON gateway, and https:// where it has TLS",
                                endpoint(), reply.status, printable_start(reply.body)));
  }
  refuse(refusal);
}

std::string EtcdClient::ask_endpoint(const Call& call, Clock::time_point deadline) {
  const auto left = [&] {
    return std::max(std::chrono::duration_cast<milliseconds>(deadline - Clock::now()),
                    milliseconds(1));
  };
  const bool had_token = !token_.empty();
  if (!place_.user.empty() && !had_token) log_in(left());
  auto reply = http_.perform(post_to_endpoint(call, left()));
  if (reply.status != kOk && had_token && !place_.user.empty()) {
    // Tokens end, with time and with changes of users.
    bool is_late = false;
    try {
      is_late = is_late_token(read_refusal(reply.body, endpoint()));
    } catch (const DataError&) {
    }
    if (is_late) {
      log_in(left());
      reply = http_.perform(post_to_endpoint(call, left()));
    }
  }
  if (reply.status != kOk) refuse(reply);
  return std::move(reply.body);
}

std::string EtcdClient::ask(const Call& call) {
  const std::lock_guard lock(mutex_);
  const auto deadline = Clock::now() + timeout_;
  const auto count = place_.endpoints.size();
  std::string reasons;
  bool is_outcome_known = true;
  for (size_t tried = 0; tried < count && is_outcome_known; ++tried) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds(0)) break;
    std::string reason;
    try {
      return ask_endpoint(call, Clock::now() + left / static_cast<int64_t>(count - tried));
    } catch (const net::HttpError& error) {
      reason = error.what();
      if (error.kind() == net::HttpError::Kind::kCertificate) {
        reason += "; give the certificate of who signed its own: --etcd-ca FILE";
      }
      is_outcome_known = !call.is_write || !error.is_sent();
    } catch (const EtcdError& error) {
      if (error.kind() != EtcdError::Kind::kUnreachable) throw;
      reason = error.what();
      is_outcome_known = !call.is_write;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", endpoint(), reason);
    current_ = (current_ + 1) % count;
  }
  throw EtcdError(EtcdError::Kind::kUnreachable, is_outcome_known,
                  fmt::format("etcd does not answer ({}); start it, or give the addresses where it "
                              "listens, with https:// where it has TLS: --etcd URL,... or {}",
                              reasons, kEtcdVariable));
}

RangeResult EtcdClient::range(const KeyRange& range) {
  return read_range_reply(ask({.path = "/v3/kv/range", .body = range_request(range)}),
                          place_.name());
}

std::optional<KeyValue> EtcdClient::get(const std::string& key) {
  auto result = range(one_key(key));
  if (result.values.empty()) return {};
  return std::move(result.values.front());
}

int64_t EtcdClient::put(const std::string& key, const std::string& value, int64_t lease) {
  return read_range_reply(ask({.path = "/v3/kv/put",
                               .body = put_request(put_key(key, value, lease)),
                               .is_write = true}),
                          place_.name())
      .revision;
}

TxnResult EtcdClient::txn(const EtcdTxn& txn) {
  return read_txn_reply(ask({.path = "/v3/kv/txn", .body = txn_request(txn), .is_write = true}),
                        place_.name());
}

LeaseReply EtcdClient::grant(int64_t seconds) {
  return read_lease_reply(ask({.path = "/v3/lease/grant", .body = grant_request(seconds)}),
                          place_.name());
}

int64_t EtcdClient::keep_alive(int64_t lease) {
  return read_keep_alive_reply(ask({.path = "/v3/lease/keepalive", .body = lease_request(lease)}),
                               place_.name())
      .ttl;
}

int64_t EtcdClient::time_to_live(int64_t lease) {
  return read_lease_reply(ask({.path = "/v3/lease/timetolive", .body = lease_request(lease)}),
                          place_.name())
      .ttl;
}

void EtcdClient::revoke(int64_t lease) {
  try {
    ask({.path = "/v3/lease/revoke", .body = lease_request(lease)});
  } catch (const EtcdError& error) {
    if (error.kind() != EtcdError::Kind::kNotFound) throw;
  }
}

void EtcdClient::watch(const KeyRange& range, int64_t from_revision, milliseconds duration,
                       const std::function<bool(const WatchReply&)>& on_reply) {
  const std::lock_guard lock(mutex_);
  std::exception_ptr fault;
  const auto on_line = [&](std::string_view line) {
    try {
      const auto reply = read_watch_reply(line, endpoint());
      if (reply.is_canceled && reply.compact_revision > 0) {
        throw EtcdError(EtcdError::Kind::kCompacted, true,
                        fmt::format("etcd at {} keeps revisions from {} on, and was asked for what "
                                    "happened from {} on; read the keys anew",
                                    endpoint(), reply.compact_revision, from_revision));
      }
      if (reply.is_canceled) {
        // Who may not read is told so by the next call, which is an ordinary one.
        token_.clear();
        throw EtcdError(
            EtcdError::Kind::kRefused, true,
            fmt::format("etcd at {} ended a watch: {}", endpoint(), reply.cancel_reason));
      }
      return on_reply(reply);
    } catch (...) {
      fault = std::current_exception();
      return false;
    }
  };
  try {
    if (!place_.user.empty() && token_.empty()) log_in(timeout_);
    http_.stream(post_to_endpoint(
                     {.path = "/v3/watch", .body = watch_request(range, from_revision)}, duration),
                 on_line);
  } catch (const net::HttpError& error) {
    const auto at = endpoint();
    current_ = (current_ + 1) % place_.endpoints.size();
    throw EtcdError(EtcdError::Kind::kUnreachable, true,
                    fmt::format("etcd at {} does not answer: {}", at, error.what()));
  }
  if (fault) std::rethrow_exception(fault);
}

}  // namespace fovea::elastic
