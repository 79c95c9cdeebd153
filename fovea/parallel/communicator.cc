#include "fovea/parallel/communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::parallel {
namespace {

class Done : public Pending {
 public:
  void wait() override {}
};

class OneRank : public Communicator {
 public:
  OneRank() : Communicator(0, 1) {}

 private:
  std::unique_ptr<Pending> start(const Request& request) override {
    if (request.out.defined() && !request.out.is_same(request.in)) {
      request.out.view(-1).copy_(request.in.view(-1));
    }
    return std::make_unique<Done>();
  }
};

// All of a collective that must be the same on every rank.
std::string description_of(const std::string& what, const char* kind, const at::Tensor& out,
                           const at::Tensor& in, ReduceOp op, int64_t root) {
  auto text = fmt::format("{} of {}", kind, what);
  if (in.defined()) {
    text += fmt::format(", {} bytes into {} of {}", in.nbytes(), out.nbytes(),
                        c10::toString(in.scalar_type()));
  }
  if (op == ReduceOp::kMax) text += ", the largest";
  return root == 0 ? text : fmt::format("{}, from rank {} of the group", text, root);
}

// How many parts of one size out and in have.
std::pair<int64_t, int64_t> parts_of(Collective collective, int64_t size) {
  switch (collective) {
    case Collective::kAllGather:
      return {size, 1};
    case Collective::kReduceScatter:
      return {1, size};
    case Collective::kAllToAll:
      return {size, size};
    default:
      return {1, 1};
  }
}

}  // namespace

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kShift:
      return "shift";
    case Collective::kBarrier:
      return "barrier";
  }
  return "?";
}

int64_t Communicator::Request::bytes() const {
  return out.defined() ? static_cast<int64_t>(std::max(in.nbytes(), out.nbytes())) : 0;
}

std::unique_ptr<Pending> Communicator::checked(const Request& request) {
  const auto& out = request.out;
  const auto& in = request.in;
  const char* name = name_of(request.collective);
  const auto [out_parts, in_parts] = parts_of(request.collective, size_);
  const bool is_widened = request.collective == Collective::kReduceScatter &&
                          in.scalar_type() == at::kBFloat16 &&
                          (out.scalar_type() == at::kFloat || out.scalar_type() == at::kDouble);
  FOVEA_CHECK(!out.defined() || (out.is_contiguous() && in.is_contiguous()),
              "{} of {}: a tensor that is not contiguous", name, request.what);
  FOVEA_CHECK(!out.defined() || out.scalar_type() == in.scalar_type() || is_widened,
              "{} of {}: {} into {}; expected one dtype", name, request.what,
              c10::toString(in.scalar_type()), c10::toString(out.scalar_type()));
  FOVEA_CHECK(request.collective != Collective::kAllToAll || in.numel() % size_ == 0,
              "all_to_all of {}: {} elements among {} ranks", request.what, in.numel(), size_);
  FOVEA_CHECK(!out.defined() || out.numel() * in_parts == in.numel() * out_parts,
              "{} of {} among {} ranks: {} elements into {}; expected {} parts into {}", name,
              request.what, size_, in.numel(), out.numel(), in_parts, out_parts);
  const at::NoGradGuard no_grad;
  if (size_ > 1) {
    auto& count = counts_[request.collective];
    count.calls += 1;
    count.bytes += request.bytes();
    if (check_) {
      check_(fmt::format(
          "{} ({})", description_of(request.what, name, out, in, request.op, request.root), name_));
    }
  }
  return start(request);
}

void Communicator::run(Request request) {
  request.is_waited_for = true;
  checked(request)->wait();
}

void Communicator::all_reduce(const at::Tensor& x, const std::string& what, ReduceOp op) {
  run({.collective = Collective::kAllReduce, .out = x, .in = x, .what = what, .op = op});
}

void Communicator::broadcast(const at::Tensor& x, int64_t root, const std::string& what) {
  run({.collective = Collective::kBroadcast, .out = x, .in = x, .what = what, .root = root});
}

void Communicator::all_gather(const at::Tensor& out, const at::Tensor& in,
                              const std::string& what) {
  run({.collective = Collective::kAllGather, .out = out, .in = in, .what = what});
}

void Communicator::reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                                  const std::string& what) {
  run({.collective = Collective::kReduceScatter, .out = out, .in = in, .what = what});
}

void Communicator::all_to_all(const at::Tensor& out, const at::Tensor& in,
                              const std::string& what) {
  run({.collective = Collective::kAllToAll, .out = out, .in = in, .what = what});
}

void Communicator::shift(const at::Tensor& out, const at::Tensor& in, const std::string& what) {
  run({.collective = Collective::kShift, .out = out, .in = in, .what = what});
}

void Communicator::barrier(const std::string& what) {
  run({.collective = Collective::kBarrier, .out = {}, .in = {}, .what = what});
}

std::unique_ptr<Pending> Communicator::start_all_reduce(const at::Tensor& x,
                                                        const std::string& what, ReduceOp op) {
  return checked({.collective = Collective::kAllReduce, .out = x, .in = x, .what = what, .op = op});
}

std::unique_ptr<Pending> Communicator::start_all_gather(const at::Tensor& out, const at::Tensor& in,
                                                        const std::string& what) {
  return checked({.collective = Collective::kAllGather, .out = out, .in = in, .what = what});
}

std::unique_ptr<Pending> Communicator::start_reduce_scatter(const at::Tensor& out,
                                                            const at::Tensor& in,
                                                            const std::string& what) {
  return checked({.collective = Collective::kReduceScatter, .out = out, .in = in, .what = what});
}

std::unique_ptr<Pending> Communicator::start_all_to_all(const at::Tensor& out, const at::Tensor& in,
                                                        const std::string& what) {
  return checked({.collective = Collective::kAllToAll, .out = out, .in = in, .what = what});
}

std::unique_ptr<Pending> Communicator::start_shift(const at::Tensor& out, const at::Tensor& in,
                                                   const std::string& what) {
  return checked({.collective = Collective::kShift, .out = out, .in = in, .what = what});
}

std::unique_ptr<Communicator> make_one_rank() { return std::make_unique<OneRank>(); }

Communicator& one_rank() {
  static OneRank only;
  return only;
}

std::vector<std::string> all_gather_text(Communicator& ranks, const std::string& text,
                                         const std::string& what) {
  const auto mine = at::empty({1}, at::kLong).fill_(static_cast<int64_t>(text.size()));
  const auto sizes = at::empty({ranks.size()}, at::kLong);
  ranks.all_gather(sizes, mine, what);
  const auto longest = std::max<int64_t>(1, sizes.max().item<int64_t>());
  const auto padded = at::zeros({longest}, at::kByte);
  std::copy(text.begin(), text.end(), padded.data_ptr<uint8_t>());
  const auto all = at::empty({ranks.size(), longest}, at::kByte);
  ranks.all_gather(all, padded, what);
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    const auto* first = reinterpret_cast<const char*>(all[rank].const_data_ptr<uint8_t>());
    texts.emplace_back(first, static_cast<size_t>(sizes[rank].item<int64_t>()));
  }
  return texts;
}

void sum_over_ranks(Communicator& ranks, std::span<double> numbers, const std::string& what) {
  ranks.all_reduce(at::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())},
                                 at::TensorOptions().dtype(at::kDouble)),
                   what);
}

double max_over_ranks(Communicator& ranks, double number, const std::string& what) {
  ranks.all_reduce(at::from_blob(&number, {1}, at::TensorOptions().dtype(at::kDouble)), what,
                   ReduceOp::kMax);
  return number;
}

}  // namespace fovea::parallel
