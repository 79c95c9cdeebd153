// What a rank says to all others of its machine: a ring of bytes in shared memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "fovea/parallel/shared_memory/shared_file.h"

namespace fovea::parallel {

// All that travels begins on one of these borders: no number lies across the ring's end.
inline constexpr size_t kRingUnit = 64;

inline constexpr size_t in_units(size_t bytes) {
  return (bytes + kRingUnit - 1) / kRingUnit * kRingUnit;
}

// Bytes of a rank's file, in a group of so many ranks, with a ring of ring_bytes.
size_t shared_bytes(int64_t num_ranks, size_t ring_bytes);

// Note [Rings]
// Each rank writes what it sends into the ring of its own, once, and every other one takes out of
// it what it wants, or passes over it; what all have passed is written over. Both sides count bytes
// from the beginning of the group: `written` is the writer's, and each reader has a `read` beside
// it. A rank that finds nothing to do sleeps on its bell, which others ring when they have written
// something, or have made room that it wants.
class ByteRing {
 public:
  // rank: whose it is; reader: the rank of this process. `file` outlives it.
  ByteRing(const SharedFile& file, int64_t rank, int64_t reader, int64_t num_ranks,
           size_t ring_bytes);

  int64_t rank() const { return rank_; }

  // Of the rank's own. Room at position(), as far as it goes on without a break; of at least
  // `wanted` where there is that much.
  size_t room(size_t wanted);
  std::byte* position() const { return bytes_ + written_ % ring_bytes_; }
  void add_written(size_t units);  // bytes, a multiple of kRingUnit
  // From now on who reads rings the bell. -> whether there is room by now.
  bool ask_for_room();

  // Of another rank's. What there is to be read at next(), without a break.
  size_t available() const;
  const std::byte* next() const { return bytes_ + read_ % ring_bytes_; }
  // Also past what has been written: that is passed over. -> whether the writer waits for room.
  bool add_read(size_t units);

  // Of the rank's own: nothing more is written or read. Of another's: whether that is so.
  void close();
  bool is_closed() const;

  // Whether `reader` has read all that was written.
  bool has_been_read_by(int64_t reader) const;

  // Of whoever the ring belongs to.
  uint32_t bell() const;
  void ring_bell();
  // Returns when the bell was rung since it was `seen`, or after `patience`, or for no reason.
  void sleep(uint32_t seen, std::chrono::milliseconds patience);

 private:
  struct Head;
  struct Count;

  uint64_t least_read() const;

  Head* head_;
  Count* reads_;  // by rank
  std::byte* bytes_;
  int64_t rank_, reader_, num_ranks_;
  size_t ring_bytes_;
  uint64_t written_ = 0, read_ = 0;  // this process's own, where it writes or reads
  uint64_t known_least_read_ = 0;    // of a writer: what it saw last
};

}  // namespace fovea::parallel
