// Where the time of a loader's threads goes. Off, it costs one comparison with a null pointer where
// a stage begins; on, two readings of the clock.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace fovea::data {

// What a sample goes through. Crop, resize and flip in one pass count as kResize, with the part of
// them that the decoder does as kDecode.
enum class Stage {
  kRead,     // the stored bytes, from a file, an archive or mapped memory
  kDecode,   // image files to pixels
  kResize,   // crops, resizes, flips
  kAugment,  // what changes values, and warps
  kWrite,    // normalised, into the batch
  kOther,    // order, random numbers, bookkeeping
};
inline constexpr size_t kNumStages = 6;
inline constexpr std::array<const char*, kNumStages> kStageNames = {"read",    "decode", "resize",
                                                                    "augment", "write",  "other"};

// Sums over samples and threads, in seconds by the clock on the wall.
struct StageTimes {
  std::array<double, kNumStages> seconds = {};
  int64_t samples = 0;

  double of(Stage stage) const { return seconds[static_cast<size_t>(stage)]; }
  void add(const StageTimes& other) {
    for (size_t i = 0; i < kNumStages; ++i) seconds[i] += other.seconds[i];
    samples += other.samples;
  }
};

// One thread's clock. Time always belongs to the stage that was entered last.
class StageTimer {
 public:
  // Begins in kOther; what was counted before is forgotten.
  void start() {
    ticks_ = {};
    stage_ = Stage::kOther;
    since_ = Clock::now();
  }
  // Counts up to now for the stage that ends; returns it.
  Stage enter(Stage stage) {
    const auto now = Clock::now();
    ticks_[static_cast<size_t>(stage_)] += now - since_;
    since_ = now;
    const Stage left = stage_;
    stage_ = stage;
    return left;
  }
  // What was counted since start(), for so many samples.
  StageTimes stop(int64_t samples) {
    enter(Stage::kOther);
    StageTimes times{.samples = samples};
    for (size_t i = 0; i < kNumStages; ++i) {
      times.seconds[i] = std::chrono::duration<double>(ticks_[i]).count();
    }
    return times;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<Clock::duration, kNumStages> ticks_ = {};
  Stage stage_ = Stage::kOther;
  Clock::time_point since_;
};

// Time in this scope belongs to `stage`, and afterwards to the stage before. timer null: nothing.
class StageScope {
 public:
  StageScope(StageTimer* timer, Stage stage) : timer_(timer) {
    if (timer_ != nullptr) before_ = timer_->enter(stage);
  }
  ~StageScope() {
    if (timer_ != nullptr) timer_->enter(before_);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

 private:
  StageTimer* timer_;
  Stage before_ = Stage::kOther;
};

}  // namespace fovea::data
