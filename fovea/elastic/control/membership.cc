#include "fovea/elastic/control/membership.h"

#include <utility>

#include "fovea/core/log.h"
#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLookAgain{100};

}  // namespace

void check_same_run(EtcdClient& client, const RunKeys& keys, const Identity& here) {
  const auto value = client.get(keys.run_record());
  if (!value) return;
  const auto run = from_json<RunRecord>(value->value, keys.run_record());
  const auto text = difference(here, run.identity);
  if (text.empty()) return;
  fail<ConfigError>(
      "the run '{}' of this etcd is another one: {}; give the same, or another name (run.dir)",
      keys.run(), text);
}

Membership::Membership(const EtcdClient& client, RunKeys keys, std::string name,
                       WorkerRecord record, MembershipOptions options)
    : client_(client.another(milliseconds(500 * options.seconds))),
      keys_(std::move(keys)),
      name_(std::move(name)),
      options_(std::move(options)),
      record_(std::move(record)) {
  check_name("name of a worker", name_);
  check_same_run(*client_, keys_, record_.identity);
  register_or_refuse();
  thread_ = std::thread([this] { run(); });
}

Membership::~Membership() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Registration Membership::registration() const {
  const std::lock_guard lock(mutex_);
  return {name_, created_};
}

WorkerRecord Membership::record() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

void Membership::update(const WorkerRecord& record) {
  {
    const std::lock_guard lock(mutex_);
    if (record == record_) return;
    record_ = record;
    is_written_ = false;
  }
  wake_.notify_all();
}

void Membership::register_anew() {
  {
    const std::lock_guard lock(mutex_);
    is_to_register_ = true;
    created_ = 0;
  }
  wake_.notify_all();
}

milliseconds Membership::silent_for() const {
  const std::lock_guard lock(mutex_);
  return lease_->silent_for();
}

bool Membership::try_register() {
  auto lease = std::make_unique<Lease>(*client_, options_.seconds, options_.is_alive);
  const auto written = record();
  const auto key = keys_.worker(name_);
  const auto result = client_->txn(
      {.compares = {is_absent(key)}, .success = {put_key(key, to_json(written), lease->id())}});
  if (!result.is_success) return false;
  const std::lock_guard lock(mutex_);
  lease_.swap(lease);  // the one before is declared first: it ends without the lock
  created_ = result.revision;
  is_written_ = record_ == written;
  is_to_register_ = false;
  return true;
}

// The key of one that was killed a moment ago goes with its lease: a while after its time, as etcd
// looks for those twice a second, and an etcd that starts anew counts it from its own start.
void Membership::register_or_refuse() {
  constexpr int64_t kLate = 3;  // seconds
  const auto end = Clock::now() + std::chrono::seconds(options_.seconds + kLate);
  while (!try_register()) {
    if (Clock::now() < end) {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kLookAgain * 2);
      continue;
    }
    const auto other = client_->get(keys_.worker(name_));
    if (!other) continue;
    const auto record = from_json<WorkerRecord>(other->value, keys_.worker(name_));
    fail<ConfigError>("the run '{}' has a worker '{}' already (process {} of {}); give --name",
                      keys_.run(), name_, record.process, printable_start(record.host));
  }
}

bool Membership::write() {
  const auto written = record();
  const auto key = keys_.worker(name_);
  const auto mine = registration();
  const auto result = client_->txn({.compares = {{.key = key,
                                                  .target = EtcdCompare::Target::kCreateRevision,
                                                  .number = mine.created}},
                                    .success = {put_key(key, to_json(written), lease_->id())}});
  const std::lock_guard lock(mutex_);
  if (result.is_success) is_written_ = record_ == written;
  return result.is_success;
}

void Membership::do_what_waits() {
  bool is_asked = false, is_new_text = false;
  {
    const std::lock_guard lock(mutex_);
    is_asked = is_to_register_;
    is_new_text = !is_written_;
  }
  // The key goes with the lease, which may be seen first.
  if (!is_asked && (lease_->is_lost() || (is_new_text && !write()))) {
    log_warning(fmt::format(
        "worker {}: etcd has let its lease of {} s end, so that it is no member any more; it "
        "registers anew",
        name_, options_.seconds));
    register_anew();
    is_asked = true;
  }
  if (!is_asked) return;
  if (!lease_->is_lost()) client_->revoke(lease_->id());
  if (options_.is_alive && !options_.is_alive()) return;
  try_register();
}

void Membership::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kLookAgain,
                     [this] { return is_ending_ || !is_written_ || is_to_register_; });
      if (is_ending_) break;
    }
    try {
      do_what_waits();
    } catch (const Error&) {
      // etcd is away: what waits is tried again.
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, kLookAgain * 2, [this] { return is_ending_; })) break;
    }
  }
}

}  // namespace fovea::elastic
