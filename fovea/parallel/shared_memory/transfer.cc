// R ranks.
#include "fovea/parallel/shared_memory/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/parallel/element_sums.h"

namespace fovea::parallel {
namespace {

constexpr size_t kBlock = size_t{256} << 10;  // moved at a time: half of a core's cache
constexpr size_t kTurn = size_t{1} << 20;     // and in a row, before others have their turn
constexpr size_t kGlooSegment = size_t{1} << 20;

std::byte* bytes_of(const at::Tensor& x) { return static_cast<std::byte*>(x.data_ptr()); }

}  // namespace

Transfer::Transfer(const Communicator::Request& request, int64_t rank, int64_t size,
                   uint64_t number, std::function<void()> on_done)
    : request_(request), rank_(rank), size_(size), number_(number), on_done_(std::move(on_done)) {
  make_sources();
  make();
}

// Equal parts of a sum, in whole segments: of a short tensor the last ones are empty.
size_t Transfer::chunk_begin(int64_t chunk) const {
  const auto total = request_.in.nbytes(), ranks = static_cast<size_t>(size_);
  const auto whole = std::max((total + kGlooSegment - 1) / kGlooSegment, 2 * ranks);
  const auto of_rank = (whole + ranks - 1) / ranks, count = of_rank * ranks;
  const auto element = request_.in.element_size();
  const auto segment = ((total + count - 1) / count + element - 1) / element * element;
  return std::min(total, static_cast<size_t>(chunk) * of_rank * segment);
}

size_t Transfer::chunk_bytes(int64_t chunk) const {
  return chunk_begin(chunk + 1) - chunk_begin(chunk);
}

// What a rank sends, in its order: in a sum and an exchange first to the one behind it, so that
// each has one that sends to it.
std::vector<Transfer::Piece> Transfer::pieces_of(int64_t sender) const {
  std::vector<Piece> pieces;
  switch (request_.collective) {
    case Collective::kBarrier:
      return {{}};
    case Collective::kAllGather:
      return {{.bytes = request_.in.nbytes()}};
    case Collective::kBroadcast:
      if (sender == request_.root) pieces.push_back({.bytes = request_.in.nbytes()});
      return pieces;
    case Collective::kShift:
      return {{.bytes = request_.in.nbytes(), .to = (sender + 1) % size_}};
    case Collective::kReduceScatter:
      FOVEA_CHECK(size_ == 2, "a scattered sum over {} ranks; expected two", size_);
      [[fallthrough]];
    case Collective::kAllToAll:
      for (int64_t k = 1; k < size_; ++k) {
        pieces.push_back({.bytes = part_bytes(), .to = (sender + k) % size_});
      }
      return pieces;
    case Collective::kAllReduce:
      if (size_ == 2) return {{.bytes = request_.in.nbytes()}};
      for (int64_t k = 1; k < size_; ++k) {
        const auto to = (sender + k) % size_;
        pieces.push_back({.bytes = chunk_bytes(to), .to = to});
      }
      pieces.push_back({.bytes = chunk_bytes(sender)});
      return pieces;
  }
  return pieces;
}

// All pieces of all others, none of which is taken yet.
void Transfer::make_sources() {
  for (int64_t k = 1; k < size_; ++k) {
    Source source;
    source.rank = (rank_ + size_ - k) % size_;
    const auto pieces = pieces_of(source.rank);
    source.is_passed_over = std::none_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
      return piece.to == kAll || piece.to == rank_;
    });
    for (const auto& piece : pieces) source.pieces.push_back({.bytes = piece.bytes, .take = {}});
    sources_.push_back(std::move(source));
  }
  for (const auto& piece : pieces_of(rank_)) out_.push_back({.piece = piece});
}

Transfer::Source& Transfer::source(int64_t rank) {
  return sources_[static_cast<size_t>((rank_ + size_ - rank - 1) % size_)];
}

void Transfer::make() {
  if (request_.collective == Collective::kBarrier) return;
  const auto in = bytes_of(request_.in), out = bytes_of(request_.out);
  const auto whole = request_.in.nbytes(), part = part_bytes();
  const auto copy_to = [](std::byte* to) {
    return [to](size_t offset, const std::byte* data, size_t bytes) {
      std::memcpy(to + offset, data, bytes);
    };
  };
  switch (request_.collective) {
    case Collective::kAllGather: {
      const auto own = out + static_cast<size_t>(rank_) * whole;
      out_[0].from = in;
      out_[0].own_copy = own != in ? own : nullptr;
      for (auto& source : sources_) {
        source.pieces[0].take = copy_to(out + static_cast<size_t>(source.rank) * whole);
      }
      return;
    }
    case Collective::kBroadcast:
      if (rank_ == request_.root) out_[0].from = in;
      if (rank_ != request_.root) source(request_.root).pieces[0].take = copy_to(out);
      return;
    case Collective::kShift:
      out_[0].from = in;
      sources_[0].pieces[0].take = copy_to(out);
      return;
    case Collective::kAllToAll:
      std::memcpy(out + static_cast<size_t>(rank_) * part, in + static_cast<size_t>(rank_) * part,
                  part);
      for (auto& piece : out_) piece.from = in + static_cast<size_t>(piece.piece.to) * part;
      for (size_t k = 0; k < sources_.size(); ++k) {
        sources_[k].pieces[k].take = copy_to(out + static_cast<size_t>(sources_[k].rank) * part);
      }
      return;
    default:
      return make_sum();
  }
}

// See Note [Sums in shared memory].
void Transfer::make_sum() {
  if (size_ > 2) return make_sum_of_parts();
  const auto in = bytes_of(request_.in), out = bytes_of(request_.out);
  const auto in_size = request_.in.element_size(), out_size = request_.out.element_size();
  const auto combine =
      combine_of(request_.op, request_.in.scalar_type(), request_.out.scalar_type());
  auto& taken = sources_[0].pieces[0];
  const bool is_scattered = request_.collective == Collective::kReduceScatter;
  const auto own = is_scattered ? in + static_cast<size_t>(rank_) * part_bytes() : in;
  out_[0].from = is_scattered ? in + static_cast<size_t>(1 - rank_) * part_bytes() : in;
  if (!is_scattered) taken.limit = &out_[0].done;    // the sum stands where the numbers did
  const bool is_first = is_scattered || rank_ == 0;  // the same operation on both ranks
  taken.take = [=](size_t offset, const std::byte* data, size_t bytes) {
    const auto count = bytes / in_size;
    const auto* const ours = own + offset;
    combine(out + offset / in_size * out_size, is_first ? ours : data, is_first ? data : ours,
            static_cast<int64_t>(count));
  };
}

void Transfer::make_sum_of_parts() {
  const auto x = bytes_of(request_.in), own = x + chunk_begin(rank_);
  const auto element = request_.in.element_size();
  const auto combine =
      combine_of(request_.op, request_.in.scalar_type(), request_.in.scalar_type());
  partial_.resize(chunk_bytes(rank_));
  for (auto& piece : out_) {
    const bool is_sum = piece.piece.to == kAll;
    piece.from = is_sum ? own : x + chunk_begin(piece.piece.to);
    if (is_sum) piece.limit = &summed_;
  }
  for (size_t k = 0; k < sources_.size(); ++k) {
    auto& numbers = sources_[k].pieces[k];
    if (k > 0) numbers.limit = &sources_[k - 1].pieces[k - 1].done;
    const bool is_first = k == 0, is_last = k + 1 == sources_.size();
    numbers.take = [=, this](size_t offset, const std::byte* data, size_t bytes) {
      const auto count = static_cast<int64_t>(bytes / element);
      std::byte* const sum = partial_.data() + offset;
      if (is_first) {
        std::memcpy(sum, data, bytes);
      } else {
        combine(sum, data, sum, count);
      }
      if (!is_last) return;
      combine(own + offset, own + offset, sum, count);
      summed_ = offset + bytes;
    };
    const auto to = x + chunk_begin(sources_[k].rank);
    sources_[k].pieces.back().take = [to](size_t offset, const std::byte* data, size_t bytes) {
      std::memcpy(to + offset, data, bytes);
    };
  }
}

Transfer::Header Transfer::header_of(int64_t sender) const {
  uint64_t units = 0;
  for (const auto& piece : pieces_of(sender)) units += in_units(piece.bytes);
  return {.number = number_,
          .bytes = units,
          .collective = static_cast<uint32_t>(request_.collective),
          .dtype = request_.in.defined() ? static_cast<uint32_t>(request_.in.scalar_type()) : 0};
}

int64_t Transfer::write(ByteRing& own) {
  int64_t readers = kNone;
  const auto tell = [&](int64_t to) { readers = readers == kNone || readers == to ? to : kAll; };
  if (!is_header_written_ && !is_written()) {
    if (own.room(kRingUnit) < kRingUnit) return kNone;
    const auto header = header_of(rank_);
    std::memcpy(own.position(), &header, sizeof header);
    own.add_written(kRingUnit);
    is_header_written_ = true;
    for (const auto& piece : out_) tell(piece.piece.to);
  }
  for (size_t budget = kTurn; budget > 0 && !is_written();) {
    auto& piece = out_[next_out_];
    const auto size = write_piece(piece, own);
    if (size > 0) tell(piece.piece.to);
    budget -= std::min(budget, size);
    if (piece.done == piece.piece.bytes) {
      ++next_out_;
    } else if (size == 0) {
      break;
    }
  }
  return readers;
}

size_t Transfer::sendable(const Outgoing& piece) {
  return (piece.limit != nullptr ? *piece.limit : piece.piece.bytes) - piece.done;
}

bool Transfer::wants_room() const {
  return !is_written() && (!is_header_written_ || sendable(out_[next_out_]) > 0);
}

size_t Transfer::write_piece(Outgoing& piece, ByteRing& own) {
  auto size = std::min(sendable(piece), kBlock);
  if (size == 0) return 0;
  size = std::min(size, own.room(in_units(size)));
  if (size == 0) return 0;
  std::memcpy(own.position(), piece.from + piece.done, size);
  own.add_written(in_units(size));
  if (piece.own_copy != nullptr) {
    std::memcpy(piece.own_copy + piece.done, piece.from + piece.done, size);
  }
  piece.done += size;
  return size;
}

bool Transfer::read(std::vector<ByteRing>& rings) {
  bool came = false;
  for (auto& source : sources_) {
    if (!source.is_read()) came |= read_from(source, rings[static_cast<size_t>(source.rank)]);
  }
  return came;
}

bool Transfer::read_from(Source& source, ByteRing& ring) {
  bool came = false, writer_waits = false;
  if (source.is_passed_over) {
    const auto units = header_of(source.rank).bytes;
    writer_waits = !source.pieces.empty() && ring.add_read(kRingUnit + units);
    source.next = source.pieces.size();
    source.has_header = came = true;
  } else if (!source.has_header) {
    if (ring.available() == 0) return false;
    check_header(source, ring.next());
    writer_waits = ring.add_read(kRingUnit);
    source.has_header = came = true;
  }
  for (size_t budget = kTurn; budget > 0 && !source.is_read();) {
    auto& piece = source.pieces[source.next];
    const auto end = piece.limit != nullptr ? *piece.limit : piece.bytes;
    size_t size = end - piece.done, units = in_units(size);
    if (piece.take) {
      size = std::min({size, kBlock, ring.available()});
      units = in_units(size);
      if (size > 0) piece.take(piece.done, ring.next(), size);
    }
    if (size > 0) {
      writer_waits |= ring.add_read(units);
      came = true;
      piece.done += size;
      if (piece.take) budget -= std::min(budget, size);
    }
    if (piece.done == piece.bytes) {
      ++source.next;
    } else if (size == 0) {
      break;
    }
  }
  if (writer_waits) ring.ring_bell();
  return came;
}

void Transfer::check_header(const Source& source, const std::byte* data) const {
  Header found, expected = header_of(source.rank);
  std::memcpy(&found, data, sizeof found);
  if (std::memcmp(&found, &expected, sizeof found) == 0) return;
  const auto text = [](const Header& header) {
    return fmt::format("{} of {} bytes of {}, its collective {}",
                       name_of(static_cast<Collective>(header.collective)), header.bytes,
                       c10::toString(static_cast<at::ScalarType>(header.dtype)), header.number);
  };
  fail(
      "rank {} of the group sends {}, where this rank expects {}; all ranks of a group have to "
      "do the same: parallel.check_collectives names the first that differs",
      source.rank, text(found), text(expected));
}

bool Transfer::is_read() const {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const Source& source) { return source.is_read(); });
}

void Transfer::finish() {
  is_done_ = true;
  if (on_done_) on_done_();
}

std::vector<int64_t> Transfer::awaited() const {
  std::vector<int64_t> ranks;
  for (const auto& source : sources_) {
    if (!source.is_read()) ranks.push_back(source.rank);
  }
  return ranks;
}

}  // namespace fovea::parallel
