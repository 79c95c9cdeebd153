// What a rank sends and receives of one collective through rings.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "fovea/parallel/communicator.h"
#include "fovea/parallel/shared_memory/ring.h"

namespace fovea::parallel {

// One rank's side of a collective: what of it goes into its ring, piece after piece, and what of
// each other rank's ring comes out. Neither waits: both go on as far as the rings let them.
//
// Note [Sums in shared memory]
// Two ranks read all of each other's numbers, and each adds them up. Of more, as in Gloo's ring,
// whose sums these are in every bit: each rank has a part, and sums it over the ranks in falling
// order, from the one before it to itself: x_c + (... + (x_{c-2} + x_{c-1})). Then it sends the sum
// to all. Parts are whole segments of Gloo's, of 1 MiB at most, of which there are at least two a
// rank.
class Transfer {
 public:
  // number: of the collective in its group, the same on all ranks.
  Transfer(const Communicator::Request& request, int64_t rank, int64_t size, uint64_t number,
           std::function<void()> on_done);
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Moves what can be moved, at most some hundred KiB of each ring at a time. -> the ranks that
  // have something new to read: none, one, or kAll.
  static constexpr int64_t kNone = -2, kAll = -1;
  int64_t write(ByteRing& own);
  // rings: by rank. -> whether anything came. Rings the bell of a writer that waits for room.
  // Throws Error: another rank is in another collective.
  bool read(std::vector<ByteRing>& rings);

  bool is_written() const { return next_out_ == out_.size(); }
  bool is_read() const;
  // Whether it is for want of room that no more is written.
  bool wants_room() const;
  void finish();
  bool is_done() const { return is_done_; }  // from any thread
  // Ranks from which something is still to come.
  std::vector<int64_t> awaited() const;

 private:
  struct Header {
    uint64_t number, bytes;  // in units, without the header
    uint32_t collective, dtype;
  };
  // Of a ring: where it goes to, and how much of it there is.
  struct Piece {
    size_t bytes = 0;
    int64_t to = kAll;
  };
  struct Outgoing {
    Piece piece;
    const std::byte* from = nullptr;
    std::byte* own_copy = nullptr;  // to be written beside it
    const size_t* limit = nullptr;  // as much of it is there to be sent; null: all
    size_t done = 0;
  };
  using Take = std::function<void(size_t offset, const std::byte* data, size_t bytes)>;
  struct Incoming {
    size_t bytes = 0;
    Take take;                      // empty: passed over
    const size_t* limit = nullptr;  // not beyond that
    size_t done = 0;
  };
  struct Source {
    int64_t rank = 0;
    bool is_passed_over = false;  // all of it
    bool has_header = false;      // seen
    std::deque<Incoming> pieces;
    size_t next = 0;

    bool is_read() const { return next == pieces.size() && has_header; }
  };

  std::vector<Piece> pieces_of(int64_t sender) const;
  size_t part_bytes() const { return request_.in.nbytes() / static_cast<size_t>(size_); }
  void make();
  void make_sources();
  void make_sum();
  void make_sum_of_parts();
  Source& source(int64_t rank);
  size_t chunk_begin(int64_t chunk) const;
  size_t chunk_bytes(int64_t chunk) const;
  Header header_of(int64_t sender) const;
  void check_header(const Source& source, const std::byte* data) const;
  bool read_from(Source& source, ByteRing& ring);
  static size_t sendable(const Outgoing& piece);
  size_t write_piece(Outgoing& piece, ByteRing& own);

  Communicator::Request request_;
  int64_t rank_, size_;
  uint64_t number_;
  std::function<void()> on_done_;
  bool is_header_written_ = false;
  std::atomic<bool> is_done_ = false;
  std::deque<Outgoing> out_;  // places stand still
  size_t next_out_ = 0;
  std::vector<Source> sources_;     // in the order in which a sum takes them
  std::vector<std::byte> partial_;  // sum of the own part over some ranks
  size_t summed_ = 0;               // bytes of the own part that are the sum over all
};

}  // namespace fovea::parallel
