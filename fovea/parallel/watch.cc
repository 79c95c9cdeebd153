#include "fovea/parallel/watch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/json.h"
#include "fovea/core/printable.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{400};
constexpr size_t kMaxNamedRanks = 16;
constexpr size_t kMaxMessageBytes = 8 << 10, kMaxOperationBytes = 200;
constexpr size_t kMaxFailureBytes = 64 << 10, kMaxBeatBytes = 1 << 10;  // as they are in the store
constexpr const char* kFailureKey = "failure";

std::string cut(const std::string& text, size_t max_bytes) {
  return text.size() <= max_bytes ? text : text.substr(0, max_bytes) + "...";
}

std::string step_text(int64_t step) {
  return step < 0 ? std::string("before its first step") : fmt::format("at step {}", step);
}

// A run fails with one of these.
ExitCode failure_code(int64_t number) {
  for (const auto code : {ExitCode::kUsage, ExitCode::kConfig, ExitCode::kData,
                          ExitCode::kOutOfMemory, ExitCode::kDiverged}) {
    if (number == static_cast<int64_t>(code)) return code;
  }
  return ExitCode::kHang;
}

}  // namespace

std::string RankFailure::text() const {
  if (rank < 0) return message;
  return fmt::format("rank {} failed {}: {}", rank, step_text(step), message);
}

std::string to_text(const RankFailure& failure) {
  return json_text(nlohmann::json{{"rank", failure.rank},
                                  {"step", failure.step},
                                  {"code", static_cast<int>(failure.code)},
                                  {"message", cut(failure.message, kMaxMessageBytes)}});
}

RankFailure failure_from(const std::string& text, int64_t num_ranks) {
  const auto object = text.size() <= kMaxFailureBytes ? parse_json(text) : nlohmann::json();
  const auto number = [&](const char* name) -> int64_t {
    const auto found = object.find(name);
    return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
  };
  if (!object.is_object() || number("rank") < 0 || number("rank") >= num_ranks ||
      !object.contains("message") || !object.at("message").is_string()) {
    return {.rank = -1,
            .step = -1,
            .code = ExitCode::kHang,
            .message = fmt::format("a rank has failed, but what it told of it is damaged ('{}'); "
                                   "look at the logs of the ranks",
                                   printable_start(text))};
  }
  return {
      .rank = number("rank"),
      .step = number("step"),
      .code = failure_code(number("code")),
      .message = printable_lines(cut(object.at("message").get<std::string>(), kMaxMessageBytes))};
}

std::string RankBeat::place() const { return step_text(step); }

std::string to_text(const RankBeat& beat) {
  return fmt::format("{} {} {}", beat.count, beat.step, cut(beat.operation, kMaxOperationBytes));
}

std::optional<RankBeat> beat_from(const std::string& text) {
  RankBeat beat;
  const char* const end = text.data() + text.size();
  const auto [after_count, count_error] = std::from_chars(text.data(), end, beat.count);
  if (count_error != std::errc() || after_count == end || *after_count != ' ') return {};
  const auto [after_step, step_error] = std::from_chars(after_count + 1, end, beat.step);
  if (step_error != std::errc()) return {};
  if (after_step != end) beat.operation = printable_start({after_step + 1, end}, kMaxBeatBytes);
  return beat;
}

std::string beat_key(int64_t rank) { return fmt::format("beat/{}", rank); }

Watch::Watch(std::unique_ptr<KeyStore> store, int64_t rank, int64_t num_ranks,
             WatchPatience patience, std::shared_ptr<const Interrupt> interrupt)
    : store_(std::move(store)),
      rank_(rank),
      patience_(patience),
      interrupt_(std::move(interrupt)),
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

void Watch::on_alone(std::function<void(const std::string&)> end, milliseconds patience) {
  const std::lock_guard lock(mutex_);
  end_alone_ = std::move(end);
  alone_patience_ = patience;
  wake_.notify_all();
}

void Watch::add_fault(std::exception_ptr fault) {
  const std::lock_guard lock(mutex_);
  if (!fault_) fault_ = std::move(fault);
}

void Watch::check_fault() const {
  const std::lock_guard lock(mutex_);
  if (fault_) std::rethrow_exception(fault_);
}

void Watch::end_alone(const std::string& why) {
  post(why, ExitCode::kHang);
  std::function<void(const std::string&)> end;
  {
    const std::lock_guard lock(mutex_);
    end = end_alone_;
  }
  if (end) end(why);
}

void Watch::add_wait(double seconds) {
  const std::lock_guard lock(mutex_);
  wait_seconds_ += seconds;
}

double Watch::take_wait_seconds() {
  const std::lock_guard lock(mutex_);
  return std::exchange(wait_seconds_, 0);
}

bool Watch::is_looking() const {
  const std::lock_guard lock(mutex_);
  return num_looking_ > 0;
}

void Watch::look_at_others(bool is_wanted) {
  {
    const std::lock_guard lock(mutex_);
    num_looking_ += is_wanted ? 1 : -1;
    if (num_looking_ != (is_wanted ? 1 : 0)) return;
    for (auto& beat : beats_) beat = {"", Clock::now()};
  }
  wake_.notify_all();
}

std::optional<RankFailure> Watch::failure() const {
  if (interrupt_ && interrupt_->has_fired()) {
    return RankFailure{
        .rank = -1, .step = -1, .code = ExitCode::kHang, .message = interrupt_->why()};
  }
  const std::lock_guard lock(mutex_);
  if (failure_) return failure_;
  if (!is_lost_ && Clock::now() - last_round_ < patience_.stale) return {};
  return RankFailure{
      .rank = -1,
      .step = -1,
      .code = ExitCode::kHang,
      .message = is_lost_ ? loss_ : "the process in which the ranks meet does not answer"};
}

std::string Watch::silent_ranks(milliseconds silence) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> silent;
  for (size_t rank = 0; rank < beats_.size(); ++rank) {
    const auto since = Clock::now() - beats_[rank].changed;
    if (static_cast<int64_t>(rank) == rank_ || since < silence) continue;
    const auto last = beat_from(beats_[rank].text).value_or(RankBeat());
    silent.push_back(fmt::format("rank {} ({}) was not heard of for {:.0f} s", rank, last.place(),
                                 std::chrono::duration<double>(since).count()));
    if (silent.size() == kMaxNamedRanks) break;
  }
  return fmt::format("{}", fmt::join(silent, ", "));
}

std::string Watch::whereabouts() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> known;
  for (size_t rank = 0; rank < beats_.size() && known.size() < kMaxNamedRanks; ++rank) {
    const auto last = beat_from(beats_[rank].text);
    if (!last) continue;
    known.push_back(fmt::format("rank {} {}, {}", rank, last->place(), last->operation));
  }
  return fmt::format("{}", fmt::join(known, "; "));
}

bool Watch::post(const std::string& message, ExitCode code, milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (failure_) return failure_->rank == rank_;
  to_post_ = RankFailure{.rank = rank_, .step = step_, .code = code, .message = message};
  wake_.notify_all();
  posted_.wait_for(lock, patience, [&] { return failure_.has_value() || is_lost_; });
  return !failure_ || failure_->rank == rank_;
}

// Without the lock while the store is asked: it may take its time.
void Watch::beat() {
  std::unique_lock lock(mutex_);
  const auto text = to_text(RankBeat{.count = ++count_, .step = step_, .operation = operation_});
  const auto to_post = to_post_;
  const bool is_known = failure_.has_value(), is_looking = num_looking_ > 0;
  lock.unlock();
  store_->set(beat_key(rank_), text);
  std::optional<std::string> found;
  if (!is_known && to_post) store_->set_first(kFailureKey, to_text(*to_post));
  if (!is_known) found = store_->find(kFailureKey, kMaxFailureBytes + 1);
  if (is_looking) read_others();
  lock.lock();
  last_round_ = Clock::now();
  if (!found) return;
  failure_ = failure_from(*found, static_cast<int64_t>(beats_.size()));
  posted_.notify_all();
}

void Watch::read_others() {
  for (size_t rank = 0; rank < beats_.size(); ++rank) {
    const auto text =
        store_->find(beat_key(static_cast<int64_t>(rank)), kMaxBeatBytes).value_or("");
    const std::lock_guard lock(mutex_);
    if (text != beats_[rank].text) beats_[rank] = {text, Clock::now()};
  }
}

void Watch::run() {
  for (;;) {
    try {
      beat();
    } catch (const std::exception& error) {  // the store is gone
      const std::lock_guard lock(mutex_);
      loss_ = error.what();
      is_lost_ = true;
      posted_.notify_all();
    }
    if (is_lost_) return stay_alone();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kBeat, [&] { return is_stopping_ || (to_post_ && !failure_); });
    if (is_stopping_) return;
  }
}

void Watch::stay_alone() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return is_stopping_ || end_alone_; });
  const bool is_over =
      wake_.wait_for(lock, alone_patience_, [&] { return is_stopping_ || !end_alone_; });
  if (is_over) return;
  const auto end = end_alone_;
  lock.unlock();
  end(loss_);
}

}  // namespace fovea::parallel
