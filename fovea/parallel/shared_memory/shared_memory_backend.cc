#include "fovea/parallel/shared_memory/shared_memory_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/parallel/shared_memory/ring.h"
#include "fovea/parallel/shared_memory/transfer.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;
using MoveClock = std::chrono::steady_clock;

constexpr milliseconds kNap{100};  // between two looks whether the others are still there

class SharedMemory : public HostBackend {
 public:
  SharedMemory(std::vector<SharedFile> files, int64_t rank, size_t ring_bytes)
      : files_(std::move(files)), rank_(rank) {
    const auto size = static_cast<int64_t>(files_.size());
    for (int64_t i = 0; i < size; ++i) {
      rings_.emplace_back(files_[static_cast<size_t>(i)], i, rank, size, ring_bytes);
    }
  }

  ~SharedMemory() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    wake_.notify_all();
    own().ring_bell();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<HostWork> begin(const Communicator::Request& request,
                                  std::function<void()> on_done) override;
  void give_up(const std::string& why) override;
  bool wait(const Transfer& transfer, milliseconds patience);

 private:
  ByteRing& own() { return rings_[static_cast<size_t>(rank_)]; }
  void run();
  bool move();
  bool move_under_way();
  void let_go_of_done();
  void ring_bells(int64_t readers);
  void check_others(const Transfer& transfer);

  std::vector<SharedFile> files_;
  int64_t rank_;

  std::mutex moving_;            // of these
  std::vector<ByteRing> rings_;  // by rank
  std::deque<std::shared_ptr<Transfer>> under_way_;

  std::mutex mutex_;  // of these; never held while something is moved
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Transfer>> begun_;  // and not under way yet
  uint64_t num_begun_ = 0;
  size_t num_open_ = 0;  // not done
  int num_waiting_ = 0;
  std::string fault_;  // ends all that is not done
  bool is_stopping_ = false;
  std::thread thread_;  // started with the first collective that nobody waits for at once
};

class MovedWork : public HostWork {
 public:
  MovedWork(SharedMemory& backend, std::shared_ptr<Transfer> transfer)
      : backend_(backend), transfer_(std::move(transfer)) {}
  bool wait(milliseconds patience) override { return backend_.wait(*transfer_, patience); }

 private:
  SharedMemory& backend_;
  std::shared_ptr<Transfer> transfer_;  // and with it the tensors, until this is gone
};

std::unique_ptr<HostWork> SharedMemory::begin(const Communicator::Request& request,
                                              std::function<void()> on_done) {
  std::shared_ptr<Transfer> transfer;
  {
    const std::lock_guard lock(mutex_);
    transfer = std::make_shared<Transfer>(request, rank_, static_cast<int64_t>(files_.size()),
                                          num_begun_, std::move(on_done));
    num_begun_ += 1;
    num_open_ += 1;
    begun_.push_back(transfer);
  }
  auto work = std::make_unique<MovedWork>(*this, transfer);
  if (request.is_waited_for) return work;
  if (std::unique_lock moving(moving_, std::try_to_lock); moving) {
    move();
  } else {
    own().ring_bell();  // who moves looks once more
  }
  if (transfer->is_done()) return work;
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wake_.notify_one();
  return work;
}

// Whoever sleeps, here and on other ranks, finds that the memory is closed.
void SharedMemory::give_up(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (fault_.empty()) fault_ = why.empty() ? "given up" : why;
  }
  own().close();
  for (auto& ring : rings_) ring.ring_bell();
}

bool SharedMemory::wait(const Transfer& transfer, milliseconds patience) {
  const auto end = MoveClock::now() + patience;
  std::unique_lock lock(mutex_);
  num_waiting_ += 1;
  while (!transfer.is_done() && fault_.empty()) {
    lock.unlock();
    const auto seen = own().bell();
    const bool has_moved = [&] {
      const std::lock_guard moving(moving_);
      return !transfer.is_done() && move();
    }();
    const auto left = std::chrono::ceil<milliseconds>(end - MoveClock::now());
    if (!has_moved && !transfer.is_done()) own().sleep(seen, std::min(left, kNap));
    lock.lock();
    if (!has_moved && left.count() <= 0) break;
  }
  num_waiting_ -= 1;
  if (num_waiting_ == 0 && num_open_ > 0) wake_.notify_one();
  if (transfer.is_done()) return true;
  if (!fault_.empty()) fail("{}", fault_);
  lock.unlock();
  check_others(transfer);
  return false;
}

void SharedMemory::run() {
  for (;;) {
    const auto seen = own().bell();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] {
        return is_stopping_ || (num_open_ > 0 && num_waiting_ == 0 && fault_.empty());
      });
      if (is_stopping_) return;
    }
    const bool has_moved = [&] {
      const std::lock_guard moving(moving_);
      return move();
    }();
    if (!has_moved) own().sleep(seen, kNap);
  }
}

// -> whether anything was moved. With `moving_`.
bool SharedMemory::move() {
  {
    const std::lock_guard lock(mutex_);
    if (!fault_.empty()) return false;
    under_way_.insert(under_way_.end(), begun_.begin(), begun_.end());
    begun_.clear();
  }
  try {
    const bool has_moved = move_under_way();
    let_go_of_done();
    return has_moved;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    fault_ = error.what();
    return true;
  }
}

bool SharedMemory::move_under_way() {
  for (const auto& ring : rings_) {
    if (!under_way_.empty() && ring.rank() != rank_ && ring.is_closed()) {
      fail("rank {} of the group has closed the memory that it shared", ring.rank());
    }
  }
  bool has_moved = false, may_write = true, may_read = true, wants_room = false;
  for (const auto& transfer : under_way_) {
    if (may_write && !transfer->is_written()) {
      const auto readers = transfer->write(own());
      ring_bells(readers);
      has_moved |= readers != Transfer::kNone;
      may_write = transfer->is_written();
      wants_room = transfer->wants_room();
    }
    if (may_read) {
      has_moved |= transfer->read(rings_);
      may_read = transfer->is_read();
    }
    if (!may_write && !may_read) break;
  }
  return has_moved || (wants_room && own().ask_for_room());
}

void SharedMemory::let_go_of_done() {
  while (!under_way_.empty() && under_way_.front()->is_written() && under_way_.front()->is_read()) {
    under_way_.front()->finish();
    under_way_.pop_front();
    const std::lock_guard lock(mutex_);
    num_open_ -= 1;
    if (num_waiting_ > 0) own().ring_bell();  // it may be what another thread waits for
  }
}

void SharedMemory::ring_bells(int64_t readers) {
  if (readers == Transfer::kNone) return;
  for (auto& ring : rings_) {
    if (ring.rank() != rank_ && (readers == Transfer::kAll || readers == ring.rank())) {
      ring.ring_bell();
    }
  }
}

// Throws where a rank that is waited for has ended.
void SharedMemory::check_others(const Transfer& transfer) {
  const std::lock_guard moving(moving_);
  auto awaited = transfer.awaited();
  if (!transfer.is_written()) {
    for (const auto& ring : rings_) {
      if (ring.rank() != rank_ &&
          !rings_[static_cast<size_t>(rank_)].has_been_read_by(ring.rank())) {
        awaited.push_back(ring.rank());
      }
    }
  }
  for (const auto rank : awaited) {
    if (files_[static_cast<size_t>(rank)].has_owner()) continue;
    fail("rank {} of the group has left the memory that it shared", rank);
  }
}

}  // namespace

std::unique_ptr<HostBackend> make_shared_memory_backend(std::vector<SharedFile> files, int64_t rank,
                                                        size_t ring_bytes) {
  return std::make_unique<SharedMemory>(std::move(files), rank, ring_bytes);
}

}  // namespace fovea::parallel
