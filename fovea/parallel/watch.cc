#include "fovea/parallel/watch.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/json.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{400};
constexpr milliseconds kPostPatience{3000};
constexpr size_t kMaxNamedRanks = 16;
constexpr const char* kFailureKey = "failure";

std::string beat_key(int64_t rank) { return fmt::format("beat/{}", rank); }

std::string to_text(const RankFailure& failure) {
  return json_text(nlohmann::json{{"rank", failure.rank},
                                  {"step", failure.step},
                                  {"code", static_cast<int>(failure.code)},
                                  {"message", failure.message}});
}

RankFailure failure_from(const std::string& text) {
  const auto object = nlohmann::json::parse(text);
  return {.rank = object.at("rank"),
          .step = object.at("step"),
          .code = static_cast<ExitCode>(object.at("code").get<int>()),
          .message = object.at("message")};
}

std::string step_text(int64_t step) {
  return step < 0 ? std::string("before its first step") : fmt::format("at step {}", step);
}

}  // namespace

std::string RankFailure::text() const {
  return fmt::format("rank {} failed {}: {}", rank, step_text(step), message);
}

Watch::Watch(std::unique_ptr<KeyStore> store, int64_t rank, int64_t num_ranks, milliseconds stale)
    : store_(std::move(store)),
      rank_(rank),
      stale_(stale),
      beats_(static_cast<size_t>(num_ranks), Beat{"", Clock::now()}) {
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Watch::at_step(int64_t step) {
  const std::lock_guard lock(mutex_);
  step_ = step;
}

int64_t Watch::step() const {
  const std::lock_guard lock(mutex_);
  return step_;
}

void Watch::at_operation(const std::string& operation) {
  const std::lock_guard lock(mutex_);
  operation_ = operation;
}

void Watch::add_wait(double seconds) {
  const std::lock_guard lock(mutex_);
  wait_seconds_ += seconds;
}

double Watch::take_wait_seconds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(wait_seconds_, 0);
}

void Watch::look_at_others(bool is_wanted) {
  {
    const std::lock_guard lock(mutex_);
    if (is_looking_ == is_wanted) return;
    is_looking_ = is_wanted;
    for (auto& beat : beats_) beat = {"", Clock::now()};
  }
  wake_.notify_all();
}

std::optional<RankFailure> Watch::failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  if (!is_lost_ && Clock::now() - last_round_ < stale_) return {};
  return RankFailure{.rank = 0,
                     .step = -1,
                     .code = ExitCode::kHang,
                     .message = "the process in which the ranks meet is gone or does not answer"};
}

std::string Watch::silent_ranks(milliseconds silence) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> silent;
  for (size_t rank = 0; rank < beats_.size(); ++rank) {
    const auto since = Clock::now() - beats_[rank].changed;
    if (static_cast<int64_t>(rank) == rank_ || since < silence) continue;
    int64_t count = 0, step = -1;
    std::sscanf(beats_[rank].text.c_str(), "%ld %ld", &count, &step);
    silent.push_back(fmt::format("rank {} ({}) was not heard of for {:.0f} s", rank,
                                 step_text(step), std::chrono::duration<double>(since).count()));
    if (silent.size() == kMaxNamedRanks) break;
  }
  return fmt::format("{}", fmt::join(silent, ", "));
}

std::string Watch::whereabouts() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> known;
  for (size_t rank = 0; rank < beats_.size() && known.size() < kMaxNamedRanks; ++rank) {
    int64_t count = 0, step = -1;
    int end = 0;
    if (std::sscanf(beats_[rank].text.c_str(), "%ld %ld %n", &count, &step, &end) < 2) continue;
    known.push_back(fmt::format("rank {} {}, {}", rank, step_text(step),
                                beats_[rank].text.substr(static_cast<size_t>(end))));
  }
  return fmt::format("{}", fmt::join(known, "; "));
}

bool Watch::post(const std::string& message, ExitCode code) {
  std::unique_lock lock(mutex_);
  if (failure_) return failure_->rank == rank_;
  to_post_ = RankFailure{.rank = rank_, .step = step_, .code = code, .message = message};
  wake_.notify_all();
  posted_.wait_for(lock, kPostPatience, [&] { return failure_.has_value() || is_lost_; });
  return !failure_ || failure_->rank == rank_;
}

// Without the lock while the store is asked: it may take its time.
void Watch::beat() {
  std::unique_lock lock(mutex_);
  const auto text = fmt::format("{} {} {}", ++count_, step_, operation_);
  const auto to_post = to_post_;
  const bool is_known = failure_.has_value(), is_looking = is_looking_;
  lock.unlock();
  store_->set(beat_key(rank_), text);
  std::optional<std::string> found;
  if (!is_known && to_post) store_->set_first(kFailureKey, to_text(*to_post));
  if (!is_known) found = store_->find(kFailureKey);
  if (is_looking) read_others();
  lock.lock();
  last_round_ = Clock::now();
  if (!found) return;
  failure_ = failure_from(*found);
  posted_.notify_all();
}

void Watch::read_others() {
  for (size_t rank = 0; rank < beats_.size(); ++rank) {
    const auto text = store_->find(beat_key(static_cast<int64_t>(rank))).value_or("");
    const std::lock_guard lock(mutex_);
    if (text != beats_[rank].text) beats_[rank] = {text, Clock::now()};
  }
}

void Watch::run() {
  for (;;) {
    try {
      beat();
    } catch (const std::exception&) {  // the server is gone
      const std::lock_guard lock(mutex_);
      is_lost_ = true;
      posted_.notify_all();
      return;
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kBeat, [&] { return is_stopping_ || (to_post_ && !failure_); });
    if (is_stopping_) return;
  }
}

}  // namespace fovea::parallel
