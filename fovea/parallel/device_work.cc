#include "fovea/parallel/device_work.h"

#include <utility>

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{50}, kPauseOfTrace{1};  // between two looks at the device
constexpr milliseconds kLong{500};                    // then others are looked at

}  // namespace

DeviceWork::DeviceWork(Watch& watch, std::function<void()> give_up, milliseconds patience)
    : watch_(watch), give_up_(std::move(give_up)), patience_(patience) {}

DeviceWork::~DeviceWork() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceWork::follow(c10::intrusive_ptr<c10d::Work> work, RankWait wait,
                        std::optional<trace::Span> span) {
  const std::lock_guard lock(mutex_);
  if (followed_.empty()) oldest_since_ = Clock::now();
  followed_.push_back({.work = std::move(work), .wait = std::move(wait), .span = std::move(span)});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wake_.notify_all();
}

void DeviceWork::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return is_stopping_ || !followed_.empty(); });
    if (is_stopping_) return;
    let_go_of_done();
    const auto fault = look_at_oldest(lock);
    if (!fault.empty()) return end_unless_over(lock, fault);
    const auto pause = trace::is_on() ? kPauseOfTrace : kPause;
    wake_.wait_for(lock, pause, [&] { return is_stopping_; });
  }
}

// A device does the work of a group in its order.
void DeviceWork::let_go_of_done() {
  while (!followed_.empty() && followed_.front().work->isCompleted() &&
         followed_.front().work->exception() == nullptr) {
    auto& done = followed_.front();
    if (done.span) {
      done.span->end = trace::now();
      trace::add(*std::move(done.span));
    }
    followed_.pop_front();
    oldest_since_ = Clock::now();
    if (!look_) continue;
    look_.reset();
    watch_.at_operation("computing");
  }
}

std::string DeviceWork::look_at_oldest(std::unique_lock<std::mutex>& lock) {
  if (followed_.empty()) return {};
  auto& oldest = followed_.front();
  const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - oldest_since_);
  const auto broken = oldest.work->exception();
  if (!broken && waited < kLong) return {};
  if (!look_) {
    look_ = std::make_unique<LookAtOthers>(watch_);
    watch_.at_operation("waiting in " + oldest.wait.operation());
  }
  // Followers come at the end of the list, and only this thread takes any out.
  lock.unlock();
  std::string fault;
  try {
    if (broken) oldest.wait.fail_broken(reason_of(broken));
    oldest.wait.check(waited);
  } catch (const std::exception& error) {
    fault = error.what();
    watch_.add_fault(std::current_exception());
    give_up_();
  }
  lock.lock();
  return fault;
}

void DeviceWork::end_unless_over(std::unique_lock<std::mutex>& lock, const std::string& why) {
  if (wake_.wait_for(lock, patience_, [&] { return is_stopping_; })) return;
  lock.unlock();
  watch_.end_alone(why);
}

}  // namespace fovea::parallel
