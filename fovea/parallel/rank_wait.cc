#include "fovea/parallel/rank_wait.h"

#include <c10/util/Exception.h>

#include <thread>
#include <utility>

#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

using WaitClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSlice{250};  // between two looks at how the others are
constexpr milliseconds kSilenceOfTheDead{2500};

}  // namespace

std::string reason_of(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = of_torch ? of_torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return reason_of(thrown);
  } catch (...) {
    return "an error without words";
  }
}

RankWait::RankWait(std::string operation, milliseconds timeout, Watch& watch)
    : operation_(std::move(operation)), timeout_(timeout), watch_(watch) {}

void RankWait::until(const std::function<bool(milliseconds)>& is_over) {
  if (is_over(kSlice)) return;
  watch_.at_operation("waiting in " + operation_);
  const LookAtOthers look(watch_);
  const auto start = WaitClock::now();
  while (!is_over(kSlice)) {
    check(std::chrono::duration_cast<milliseconds>(WaitClock::now() - start));
  }
  watch_.at_operation("computing");
}

void RankWait::check(milliseconds waited) const {
  check_failure();
  if (const auto silent = watch_.silent_ranks(watch_.patience().stale); !silent.empty()) {
    throw RankError(fmt::format("{}: {}; it was stopped, killed or cut off", where(), silent));
  }
  if (waited > timeout_) fail_late();
}

std::string RankWait::where() const {
  return fmt::format("rank {}, step {}, {}", watch_.rank(), watch_.step(), operation_);
}

void RankWait::check_failure() const {
  watch_.check_fault();
  if (const auto failure = watch_.failure()) fail_because(*failure);
}

void RankWait::fail_because(const RankFailure& failure) const {
  throw RankError(fmt::format("{}: {}", where(), failure.text()), failure.code);
}

void RankWait::fail_broken(const std::string& reason) const {
  const LookAtOthers look(watch_);
  const auto start = WaitClock::now();
  while (WaitClock::now() - start < watch_.patience().reason) {
    check_failure();
    std::this_thread::sleep_for(milliseconds(50));
  }
  const auto silent = watch_.silent_ranks(kSilenceOfTheDead);
  throw RankError(silent.empty() ? fmt::format("{}: {}", where(), reason)
                                 : fmt::format("{}: {}; it was killed or cut off ({})", where(),
                                               silent, reason));
}

void RankWait::fail_late() const {
  auto silent = watch_.silent_ranks(kSilenceOfTheDead);
  if (silent.empty()) silent = "all ranks are alive: " + watch_.whereabouts();
  throw RankError(fmt::format("{}: not done within {:.0f} s (launch.timeout); {}", where(),
                              std::chrono::duration<double>(timeout_).count(), silent));
}

}  // namespace fovea::parallel
