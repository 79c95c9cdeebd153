#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "tests/cuda_kernels/fiber.h"
#include "tests/cuda_kernels/simt.h"

namespace fovea::simt {
namespace {

constexpr int kLanes = 32;
// What every GPU has, without asking it for more.
constexpr unsigned kMaxThreads = 1024, kMaxGridX = 0x7FFFFFFF, kMaxGridYZ = 65535;
constexpr size_t kMaxSharedBytes = 48 << 10;

enum class State { kReady, kAtBarrier, kInShuffle, kReturned };

struct Thread {
  Fiber fiber;
  dim3 index;
  State state = State::kReady;
  Place place;  // of what it waits at
  unsigned mask = 0;
  int source = 0;
  uint64_t value = 0, result = 0;
};

std::string text_of(const Place& place) {
  const std::string path = place.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), place.line());
}

std::string text_of(const dim3& at) { return fmt::format("({}, {}, {})", at.x, at.y, at.z); }

std::string doing(const Thread& thread) {
  switch (thread.state) {
    case State::kReady:
      return "runs";
    case State::kAtBarrier:
      return "waits at __syncthreads, " + text_of(thread.place);
    case State::kInShuffle:
      return fmt::format("waits in a shuffle with mask {:08x}, {}", thread.mask,
                         text_of(thread.place));
    case State::kReturned:
      return "has returned";
  }
  return {};
}

std::string who(const Thread& thread) { return "thread " + text_of(thread.index); }

bool same_place(const Thread& a, const Thread& b) {
  return a.place.line() == b.place.line() &&
         std::string_view(a.place.file_name()) == b.place.file_name();
}

// One block at a time.
class Gpu {
 public:
  void run(const dim3& grid, const dim3& block, size_t shared_bytes,
           const std::function<void()>& body);

  // Of the running thread.
  void wait(State state, const Place& place) {
    auto& thread = current();
    thread.state = state;
    thread.place = place;
    thread.fiber.stop();
  }
  Thread& current() { return threads_[current_]; }
  int lane() const { return static_cast<int>(current_) % kLanes; }
  void* shared_memory() { return shared_.get(); }

  Schedule schedule = Schedule::kForwards;

 private:
  void run_block();
  void start(size_t i);
  void run_warp(size_t first_lane);
  bool release_shuffles(size_t first_lane);
  bool is_complete(size_t first_lane, const Thread& thread) const;
  void exchange_values(size_t first_lane, unsigned mask);
  bool release_barrier();
  [[noreturn]] void report_stuck() const;
  std::vector<size_t> in_schedule(size_t count) const;

  std::vector<Thread> threads_;
  size_t num_threads_ = 0, current_ = 0;
  const std::function<void()>* body_ = nullptr;
  std::unique_ptr<std::byte[]> shared_;
};

Gpu& gpu() {
  static Gpu the_gpu;
  return the_gpu;
}

void check_launch(const dim3& grid, const dim3& block, size_t shared_bytes) {
  const bool has_any = grid.x && grid.y && grid.z && block.x && block.y && block.z;
  FOVEA_CHECK(has_any && grid.x <= kMaxGridX && grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ,
              "launch of a grid of {}, blocks of {}; expected 1 to {}, {}, {} blocks",
              text_of(grid), text_of(block), kMaxGridX, kMaxGridYZ, kMaxGridYZ);
  FOVEA_CHECK(uint64_t{block.x} * block.y * block.z <= kMaxThreads && block.z <= 64,
              "launch of blocks of {} threads; expected at most {}", text_of(block), kMaxThreads);
  FOVEA_CHECK(shared_bytes <= kMaxSharedBytes,
              "launch with {} bytes of shared memory; expected at most {}", shared_bytes,
              kMaxSharedBytes);
}

void Gpu::run(const dim3& grid, const dim3& block, size_t shared_bytes,
              const std::function<void()>& body) {
  check_launch(grid, block, shared_bytes);
  num_threads_ = size_t{block.x} * block.y * block.z;
  if (threads_.size() < num_threads_) threads_.resize(num_threads_);
  body_ = &body;
  position.grid_dim = grid;
  position.block_dim = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        position.block = dim3(x, y, z);
        shared_ = std::make_unique_for_overwrite<std::byte[]>(shared_bytes);
        std::memset(shared_.get(), 0xFF, shared_bytes);
        run_block();
      }
    }
  }
  shared_.reset();
}

void Gpu::run_block() {
  for (size_t i = 0; i < num_threads_; ++i) start(i);
  const auto end = threads_.begin() + static_cast<std::ptrdiff_t>(num_threads_);
  const auto has_returned = [](const Thread& thread) { return thread.state == State::kReturned; };
  const auto warps = in_schedule((num_threads_ + kLanes - 1) / kLanes);
  for (;;) {
    for (const size_t warp : warps) run_warp(warp * kLanes);
    if (std::all_of(threads_.begin(), end, has_returned)) return;
    if (!release_barrier()) report_stuck();
  }
}

void Gpu::start(size_t i) {
  auto& thread = threads_[i];
  const auto& dim = position.block_dim;
  const auto linear = static_cast<unsigned>(i);
  thread.index = dim3(linear % dim.x, linear / dim.x % dim.y, linear / dim.x / dim.y);
  thread.state = State::kReady;
  thread.fiber.start(*body_);
}

// As far as it comes before the other warps have moved at all: until each of its threads waits for
// them or has returned.
void Gpu::run_warp(size_t first_lane) {
  const auto lanes = in_schedule(std::min<size_t>(kLanes, num_threads_ - first_lane));
  do {
    for (const size_t lane : lanes) {
      auto& thread = threads_[first_lane + lane];
      if (thread.state != State::kReady) continue;
      current_ = first_lane + lane;
      position.thread = thread.index;
      if (thread.fiber.resume()) thread.state = State::kReturned;
    }
  } while (release_shuffles(first_lane));
}

// 0 to count - 1 in the order of the schedule.
std::vector<size_t> Gpu::in_schedule(size_t count) const {
  std::vector<size_t> result(count);
  std::iota(result.begin(), result.end(), size_t{0});
  if (schedule != Schedule::kForwards) std::reverse(result.begin(), result.end());
  if (schedule == Schedule::kMixed) {  // odd ones first
    std::stable_partition(result.begin(), result.end(), [](size_t i) { return i % 2 == 1; });
  }
  return result;
}

// Whether all lanes that the shuffle of `thread` names take part in it.
bool Gpu::is_complete(size_t first_lane, const Thread& thread) const {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (!(thread.mask >> lane & 1)) continue;
    if (first_lane + lane >= num_threads_) return false;
    const auto& other = threads_[first_lane + lane];
    if (other.state != State::kInShuffle || other.mask != thread.mask ||
        !same_place(other, thread)) {
      return false;
    }
  }
  return true;
}

void Gpu::exchange_values(size_t first_lane, unsigned mask) {
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (!(mask >> lane & 1)) continue;
    auto& thread = threads_[first_lane + lane];
    FOVEA_CHECK(mask >> thread.source & 1,
                "{} in block {} reads lane {} in the shuffle at {}, whose mask is {:08x}",
                who(thread), text_of(position.block), thread.source, text_of(thread.place), mask);
    thread.result = threads_[first_lane + static_cast<size_t>(thread.source)].value;
    thread.state = State::kReady;
  }
}

// Of one warp: those that all have come to.
bool Gpu::release_shuffles(size_t first_lane) {
  bool has_released = false;
  for (size_t i = first_lane; i < std::min(first_lane + kLanes, num_threads_); ++i) {
    if (threads_[i].state != State::kInShuffle || !is_complete(first_lane, threads_[i])) continue;
    exchange_values(first_lane, threads_[i].mask);
    has_released = true;
  }
  return has_released;
}

bool Gpu::release_barrier() {
  for (size_t i = 0; i < num_threads_; ++i) {
    if (threads_[i].state != State::kAtBarrier || !same_place(threads_[i], threads_[0]))
      return false;
  }
  for (size_t i = 0; i < num_threads_; ++i) threads_[i].state = State::kReady;
  return true;
}

// Names a thread that waits, and the first one that keeps it waiting.
void Gpu::report_stuck() const {
  const auto waits = [](const Thread& thread) { return thread.state != State::kReturned; };
  const auto end = threads_.begin() + static_cast<std::ptrdiff_t>(num_threads_);
  const auto& first = *std::find_if(threads_.begin(), end, waits);
  const auto differs = [&](const Thread& thread) {
    return thread.state != first.state || thread.mask != first.mask || !same_place(thread, first);
  };
  const auto other = std::find_if(threads_.begin(), end, differs);
  fail<Error>("block {} is stuck: {} {}, {}", text_of(position.block), who(first), doing(first),
              other == end ? "and lanes that its mask names are not there"
                           : who(*other) + " " + doing(*other));
}

}  // namespace

void run(const dim3& grid, const dim3& block, size_t shared_bytes,
         const std::function<void()>& body) {
  gpu().run(grid, block, shared_bytes, body);
}

void* shared_memory() { return gpu().shared_memory(); }

void any_schedule(const std::function<void()>& body) {
  for (const auto schedule : {Schedule::kForwards, Schedule::kBackwards, Schedule::kMixed}) {
    gpu().schedule = schedule;
    body();
  }
  gpu().schedule = Schedule::kForwards;
}

void wait_for_block(const Place& place) {
  gpu().current().mask = 0;
  gpu().wait(State::kAtBarrier, place);
}

uint64_t exchange(unsigned mask, uint64_t value, int source, const Place& place) {
  auto& thread = gpu().current();
  FOVEA_CHECK(mask >> gpu().lane() & 1,
              "{} calls the shuffle at {}, whose mask {:08x} does not name it", who(thread),
              text_of(place), mask);
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  gpu().wait(State::kInShuffle, place);
  return thread.result;
}

int lane() { return gpu().lane(); }

}  // namespace fovea::simt
