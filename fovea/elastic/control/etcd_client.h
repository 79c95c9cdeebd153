// etcd, in which members of an elastic run find each other: keys, transactions, leases and watches
// through its JSON gateway.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/elastic/control/etcd_wire.h"
#include "fovea/net/http.h"

namespace fovea::elastic {

class EtcdError : public Error {
 public:
  enum class Kind {
    kUnreachable,  // no address answers, or none that has a quorum
    kDenied,       // no user, a wrong password, or keys that the user may not use
    kFull,         // out of its quota
    kCompacted,    // a revision that is not kept any more
    kNotFound,     // no such lease
    kRefused       // any other
  };
  EtcdError(Kind kind, bool is_outcome_known, const std::string& message)
      : Error(message), kind_(kind), is_outcome_known_(is_outcome_known) {}
  Kind kind() const { return kind_; }
  // False: what was to be written may have been written.
  bool is_outcome_known() const { return is_outcome_known_; }
  ExitCode exit_code() const override { return ExitCode::kConfig; }

 private:
  Kind kind_;
  bool is_outcome_known_;
};

// Where etcd is and who asks.
struct EtcdPlace {
  std::vector<std::string> endpoints{};  // "https://10.0.0.1:2379"
  std::string ca_file{};                 // empty: whom the system trusts
  std::string user{};                    // empty: none
  std::string password{};

  std::string name() const;        // for messages: the addresses
  std::string first_host() const;  // of the first address, without scheme, port and brackets
};

inline constexpr const char* kEtcdVariable = "FOVEA_ETCD";
inline constexpr const char* kEtcdCaVariable = "FOVEA_ETCD_CA";
inline constexpr const char* kEtcdUserVariable = "FOVEA_ETCD_USER";
inline constexpr const char* kEtcdPasswordVariable = "FOVEA_ETCD_PASSWORD";

// urls: addresses between commas, "http://" where they have no scheme; what is empty comes from the
// environment, and the password from there alone. Throws ConfigError: no address, one that is none,
// a password in it, a user without a password, a CA file that is not there.
EtcdPlace etcd_place(const std::string& urls, const std::string& ca_file, const std::string& user);

// Each call ends within `timeout`. The address that answered last is asked first, then the others.
// What writes is asked again elsewhere only where it cannot have arrived. Every call throws
// EtcdError that says what to do. Safe from several threads, one after another.
class EtcdClient {
 public:
  explicit EtcdClient(EtcdPlace place, std::chrono::milliseconds timeout = std::chrono::seconds(5));

  // With connections of its own: for another thread.
  std::unique_ptr<EtcdClient> another(std::chrono::milliseconds timeout) const;
  const EtcdPlace& place() const { return place_; }

  RangeResult range(const KeyRange& range);
  std::optional<KeyValue> get(const std::string& key);
  // Returns etcd's revision, which is then mod_revision of the key.
  int64_t put(const std::string& key, const std::string& value, int64_t lease = 0);
  TxnResult txn(const EtcdTxn& txn);

  // A lease of so many seconds, of which etcd may make more: at least 2.
  LeaseReply grant(int64_t seconds);
  // Its ttl afterwards; 0 or less: there is no such lease any more.
  int64_t keep_alive(int64_t lease);
  int64_t time_to_live(int64_t lease);
  void revoke(int64_t lease);

  // What happens to `range` from a revision on, as it happens; returns after `duration`, or when
  // on_reply says false. Throws EtcdError kCompacted where events are not kept any more: read the
  // range anew, and watch from behind its revision.
  void watch(const KeyRange& range, int64_t from_revision, std::chrono::milliseconds duration,
             const std::function<bool(const WatchReply&)>& on_reply);

  // Ends the call that is under way, and each later one, with EtcdError kUnreachable.
  void interrupt() { http_.interrupt(); }

 private:
  struct Call {
    const char* path;  // "/v3/kv/range"
    std::string body;
    bool is_write = false;
  };
  std::string ask(const Call& call);
  std::string ask_endpoint(const Call& call, std::chrono::steady_clock::time_point deadline);
  net::HttpRequest post_to_endpoint(const Call& call, std::chrono::milliseconds timeout) const;
  void log_in(std::chrono::milliseconds timeout);
  [[noreturn]] void refuse(const net::HttpReply& reply) const;
  [[noreturn]] void refuse(const EtcdRefusal& refusal) const;
  const std::string& endpoint() const { return place_.endpoints[current_]; }

  EtcdPlace place_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  net::HttpClient http_;
  size_t current_ = 0;  // of endpoints
  std::string token_;   // of a user that has logged in
};

}  // namespace fovea::elastic
