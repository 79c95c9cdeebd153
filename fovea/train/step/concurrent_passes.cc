#include "fovea/train/step/concurrent_passes.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/kernels/device.h"

namespace fovea::train {
namespace {

constexpr int64_t kRounds = 3;  // over the candidates, by turns
constexpr int64_t kMostOfAuto = 8;

}  // namespace

ConcurrentPasses::ConcurrentPasses(int64_t number, int64_t most, c10::Device device)
    : device_(device), is_given_(number > 0) {
  if (is_given_) {
    candidates_ = {{.number = number}};
    return;
  }
  for (int64_t n = 1; n <= std::clamp<int64_t>(most, 1, kMostOfAuto); n *= 2) {
    candidates_.push_back({.number = n});
  }
}

ConcurrentPasses::ConcurrentPasses(Choose choose, int64_t most, c10::Device device)
    : device_(device), is_given_(false), choose_(std::move(choose)) {
  candidates_ = {{.number = std::clamp<int64_t>(most, 1, kMostOfAuto)}};
}

PassWorkers& ConcurrentPasses::workers() {
  const auto most = candidates_.back().number;
  if (!workers_ || workers_->number() < most) {
    workers_ = std::make_unique<PassWorkers>(most, device_);
  }
  return *workers_;
}

void ConcurrentPasses::run(int64_t count, int64_t samples, const std::function<void()>& passes) {
  using Clock = std::chrono::steady_clock;
  if (is_settled()) return passes();
  kernels::synchronize(device_);
  const auto start = Clock::now();
  passes();
  kernels::synchronize(device_);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  auto& tried = candidates_[static_cast<size_t>(&candidate() - candidates_.data())];
  // A step of fewer passes, as the last one of an epoch may be, says nothing of it.
  if (count >= tried.number && num_steps_ % kStepsOfTurn == kStepsOfTurn - 1) {
    const double of_sample = seconds.count() / static_cast<double>(std::max<int64_t>(1, samples));
    tried.least = tried.least > 0 ? std::min(tried.least, of_sample) : of_sample;
  }
  num_steps_ += 1;
  if (num_steps_ == kRounds * kStepsOfTurn * std::ssize(candidates_)) settle();
}

// Numbers that no step had passes for were not tried.
void ConcurrentPasses::settle() {
  std::erase_if(candidates_, [](const Candidate& each) { return each.least == 0; });
  if (candidates_.empty()) candidates_ = {{}};
  const double alone = candidates_.front().least;
  const auto best =
      *std::min_element(candidates_.begin(), candidates_.end(),
                        [](const Candidate& a, const Candidate& b) { return a.least < b.least; });
  std::string times;
  for (const auto& [number, least] : candidates_) {
    if (number > 1) times += fmt::format(", {}: {:.2f}", number, least / alone);
  }
  const bool gains = best.least < (1 - kLeastGain) * alone;
  log_info(fmt::format("trainer.concurrent_passes: {} at once from here on (time against one{})",
                       gains ? best.number : 1, times));
  candidates_ = {gains ? best : Candidate{}};
  if (!gains) workers_.reset();
}

bool ConcurrentPasses::take_fewer(int64_t failed) {
  if (is_given_ || failed == 1) return false;
  if (is_settled()) {
    candidates_.front().number = failed / 2;
  } else {
    std::erase_if(candidates_, [&](const Candidate& each) { return each.number >= failed; });
    for (auto& each : candidates_) each.least = 0;
  }
  num_steps_ = 0;
  workers_.reset();
  log_info(fmt::format(
      "trainer.concurrent_passes: memory ran out in {} passes at once; going on with at most {}",
      failed, candidates_.back().number));
  return true;
}

}  // namespace fovea::train
