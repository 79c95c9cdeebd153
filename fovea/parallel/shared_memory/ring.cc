#include "fovea/parallel/shared_memory/ring.h"

#include <algorithm>
#include <new>

#include "fovea/core/awaited_word.h"

namespace fovea::parallel {
namespace {

constexpr size_t kPage = 4096;

}  // namespace

// Zeros are its beginning, as those of a new file. Each by itself in a cache line, for others
// write to it than to what stands beside it.
struct ByteRing::Head {
  uint64_t token;  // the file's
  alignas(kRingUnit) std::atomic<uint64_t> written;
  alignas(kRingUnit) AwaitedWord bell;
  alignas(kRingUnit) std::atomic<uint32_t> wants_room;
  std::atomic<uint32_t> is_closed;
};

struct ByteRing::Count {
  alignas(kRingUnit) std::atomic<uint64_t> bytes;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

size_t shared_bytes(int64_t num_ranks, size_t ring_bytes) {
  const auto counts = static_cast<size_t>(num_ranks) * kRingUnit;
  return kPage + (counts + kPage - 1) / kPage * kPage + ring_bytes;
}

ByteRing::ByteRing(const SharedFile& file, int64_t rank, int64_t reader, int64_t num_ranks,
                   size_t ring_bytes)
    : head_(reinterpret_cast<Head*>(file.data())),
      reads_(reinterpret_cast<Count*>(file.data() + kPage)),
      bytes_(file.data() + file.bytes() - ring_bytes),
      rank_(rank),
      reader_(reader),
      num_ranks_(num_ranks),
      ring_bytes_(ring_bytes) {}

uint64_t ByteRing::least_read() const {
  uint64_t least = UINT64_MAX;
  for (int64_t reader = 0; reader < num_ranks_; ++reader) {
    if (reader != rank_) {
      least = std::min(least, reads_[reader].bytes.load());
    }
  }
  return least;
}

// Readers may have passed over what is still to come.
size_t ByteRing::room(size_t wanted) {
  const auto free = [&] {
    const auto filled = written_ > known_least_read_ ? written_ - known_least_read_ : 0;
    return ring_bytes_ - static_cast<size_t>(filled);
  };
  if (free() < wanted) known_least_read_ = least_read();
  return std::min(free(), ring_bytes_ - static_cast<size_t>(written_ % ring_bytes_));
}

void ByteRing::add_written(size_t units) {
  written_ += units;
  head_->written.store(written_, std::memory_order_release);
  if (head_->wants_room.load(std::memory_order_relaxed) != 0) head_->wants_room.store(0);
}

bool ByteRing::ask_for_room() {
  head_->wants_room.store(1);
  return room(kRingUnit) > 0;
}

size_t ByteRing::available() const {
  const auto written = head_->written.load(std::memory_order_acquire);
  if (written <= read_) return 0;
  return std::min(static_cast<size_t>(written - read_),
                  ring_bytes_ - static_cast<size_t>(read_ % ring_bytes_));
}

bool ByteRing::add_read(size_t units) {
  read_ += units;
  reads_[reader_].bytes.store(read_);  // before the look at who waits
  return head_->wants_room.load() != 0;
}

void ByteRing::close() { head_->is_closed.store(1); }

bool ByteRing::is_closed() const { return head_->is_closed.load(std::memory_order_relaxed) != 0; }

bool ByteRing::has_been_read_by(int64_t reader) const {
  return reads_[reader].bytes.load() >= head_->written.load();
}

uint32_t ByteRing::bell() const { return head_->bell.value.load(); }

void ByteRing::ring_bell() {
  head_->bell.value.fetch_add(1);
  head_->bell.wake_all();
}

void ByteRing::sleep(uint32_t seen, std::chrono::milliseconds patience) {
  if (patience.count() > 0) head_->bell.sleep_while(seen, patience);
}

}  // namespace fovea::parallel
