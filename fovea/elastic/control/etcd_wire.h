// What travels to and from etcd's JSON gateway (/v3 of etcd 3.4): keys and values in base64,
// numbers of 64 bits as texts, what is zero or empty left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::elastic {

struct KeyValue {
  std::string key;
  std::string value;
  int64_t create_revision = 0;  // of etcd, when the key was made
  int64_t mod_revision = 0;     // when it was written last
  int64_t version = 0;          // how often it was written since it was made
  int64_t lease = 0;            // the key ends with it; 0: none

  bool operator==(const KeyValue&) const = default;
};

// The keys from `first` to before `end`; with an empty `end` the one key.
struct KeyRange {
  std::string first;
  std::string end{};
};
KeyRange one_key(std::string key);
KeyRange with_prefix(std::string prefix);

// A condition of a transaction. Of a key that is not there all numbers are 0.
struct EtcdCompare {
  enum class Target { kValue, kVersion, kCreateRevision, kModRevision, kLease };
  enum class Result { kEqual, kNotEqual, kLess, kGreater };
  std::string key;
  Target target = Target::kVersion;
  int64_t number = 0;   // of the others
  std::string value{};  // of kValue
  Result result = Result::kEqual;
};
EtcdCompare is_absent(std::string key);
EtcdCompare is_at_revision(std::string key, int64_t mod_revision);

struct EtcdOperation {
  enum class Kind { kPut, kDelete, kRange };
  Kind kind = Kind::kPut;
  KeyRange range{};
  std::string value{};  // of kPut
  int64_t lease = 0;    // of kPut
};
EtcdOperation put_key(std::string key, std::string value, int64_t lease = 0);
EtcdOperation delete_keys(KeyRange range);
EtcdOperation read_keys(KeyRange range);

struct EtcdTxn {
  std::vector<EtcdCompare> compares{};  // all of them hold: `success`; else `failure`
  std::vector<EtcdOperation> success{};
  std::vector<EtcdOperation> failure{};
};

struct RangeResult {
  int64_t revision = 0;  // of etcd, which the values are of
  std::vector<KeyValue> values{};
};

struct TxnResult {
  struct Part {  // of one operation
    std::vector<KeyValue> values{};
    int64_t num_deleted = 0;
  };
  int64_t revision = 0;
  bool is_success = false;
  std::vector<Part> parts{};  // of the operations that were done, in order
};

struct WatchEvent {
  bool is_delete = false;
  KeyValue kv{};  // of a delete the key and mod_revision alone
};

struct WatchReply {
  int64_t revision = 0;
  bool is_created = false;
  bool is_canceled = false;
  int64_t compact_revision = 0;  // of a cancel: what came before is not kept any more
  std::string cancel_reason{};
  std::vector<WatchEvent> events{};
};

// gRPC's codes, of those that etcd uses.
enum class EtcdCode : int64_t {
  kInvalidArgument = 3,
  kNotFound = 5,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kUnavailable = 14,
  kUnauthenticated = 16
};

struct EtcdRefusal {
  EtcdCode code{};
  std::string message{};  // printable
};

std::string range_request(const KeyRange& range);
std::string put_request(const EtcdOperation& put);
std::string txn_request(const EtcdTxn& txn);
std::string lease_request(int64_t id);
std::string grant_request(int64_t seconds);
std::string watch_request(const KeyRange& range, int64_t from_revision);
std::string login_request(const std::string& user, const std::string& password);

// Each throws DataError naming `source` for what is no such answer. What is not known is passed
// over, as of a newer etcd.
RangeResult read_range_reply(std::string_view text, const std::string& source);
TxnResult read_txn_reply(std::string_view text, const std::string& source);
WatchReply read_watch_reply(std::string_view line, const std::string& source);
struct LeaseReply {
  int64_t id = 0;
  int64_t ttl = 0;  // s; 0 or less: there is no such lease
};
// of grant and time to live; of keep alive, which has it within "result".
LeaseReply read_lease_reply(std::string_view text, const std::string& source);
LeaseReply read_keep_alive_reply(std::string_view text, const std::string& source);
std::string read_login_reply(std::string_view text, const std::string& source);
// Of a status other than 200.
EtcdRefusal read_refusal(std::string_view text, const std::string& source);

}  // namespace fovea::elastic
