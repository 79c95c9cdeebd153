// B batch, N tokens, n = N / R of R ranks, D width, G blocks of features.
#include "fovea/parallel/exchange.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <memory>

#include "fovea/core/error.h"

namespace fovea::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using Map = std::function<at::Tensor(const at::Tensor&)>;

struct Adjoint : torch::CustomClassHolder {
  explicit Adjoint(Map given) : map(std::move(given)) {}
  Map map;
};

// y = forward(x), dx = backward(dy).
class ExchangeFunction : public torch::autograd::Function<ExchangeFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Map& forward,
                            const Map& backward) {
    ctx->saved_data["backward"] = at::IValue::make_capsule(c10::make_intrusive<Adjoint>(backward));
    return forward(x);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto capsule = ctx->saved_data.at("backward").toCapsule();
    return {static_cast<Adjoint&>(*capsule).map(gradients[0]), at::Tensor(), at::Tensor()};
  }
};

at::Tensor exchanged(const Communicator& ranks, const at::Tensor& x, const Map& forward,
                     const Map& backward) {
  return ranks.size() == 1 ? x : ExchangeFunction::apply(x, forward, backward);
}

at::Tensor same(const at::Tensor& x) { return x; }

Map summing(Communicator& ranks, const std::string& what) {
  return [&ranks, what](const at::Tensor& x) {
    const auto sum = x.clone(at::MemoryFormat::Contiguous);
    ranks.all_reduce(sum, what);
    return sum;
  };
}

Map taking_own(Communicator& ranks, int64_t dim) {
  return [&ranks, dim](const at::Tensor& x) {
    const auto size = x.size(dim) / ranks.size();
    FOVEA_CHECK(size * ranks.size() == x.size(dim), "{} entries for {} ranks; expected a multiple",
                x.size(dim), ranks.size());
    return x.narrow(dim, ranks.rank() * size, size).contiguous();
  };
}

Map joining(Communicator& ranks, int64_t dim, const std::string& what) {
  return [&ranks, dim, what](const at::Tensor& x) {
    auto shape = x.sizes().vec();
    shape.insert(shape.begin(), ranks.size());
    const auto all = at::empty(shape, x.options());
    ranks.all_gather(all, x.contiguous(), what);
    const auto at_dim = dim < 0 ? dim + x.dim() : dim;
    return all.movedim(0, at_dim).flatten(at_dim, at_dim + 1);
  };
}

Map summing_own(Communicator& ranks, int64_t dim, const std::string& what) {
  return [&ranks, dim, what](const at::Tensor& x) {
    const auto at_dim = dim < 0 ? dim + x.dim() : dim;
    const auto parts = x.unflatten(at_dim, {ranks.size(), -1}).movedim(at_dim, 0).contiguous();
    const auto own = at::empty_like(parts[0], at::MemoryFormat::Contiguous);
    ranks.reduce_scatter(own, parts, what);
    return own;
  };
}

// [B, n, D] -> [B, N, D / R]
Map to_features(Communicator& ranks, int64_t blocks, const std::string& what) {
  return [&ranks, blocks, what](const at::Tensor& x) {
    const auto sent = x.unflatten(-1, {blocks, ranks.size(), -1})  // [B, n, G, R, D / G / R]
                          .movedim(3, 0)
                          .contiguous();  // [R, B, n, G, D / G / R]: by rank that has the features
    const auto received = at::empty_like(sent);  // by rank that had the tokens
    ranks.all_to_all(received, sent, what);
    return received.movedim(0, 1).flatten(1, 2).flatten(2);
  };
}

// [B, N, D / R] -> [B, n, D]
Map to_tokens(Communicator& ranks, int64_t blocks, const std::string& what) {
  return [&ranks, blocks, what](const at::Tensor& x) {
    const auto sent = x.unflatten(-1, {blocks, -1})
                          .unflatten(1, {ranks.size(), -1})  // [B, R, n, G, D / G / R]
                          .movedim(1, 0)
                          .contiguous();
    const auto received = at::empty_like(sent);  // by rank that had the features
    ranks.all_to_all(received, sent, what);
    return received.movedim(0, 3).flatten(2);  // [B, n, G, R, D / G / R] -> [B, n, D]
  };
}

}  // namespace

at::Tensor Exchange::sum_gradient(const at::Tensor& x) const {
  return exchanged(ranks, x, same, summing(ranks, what));
}

at::Tensor Exchange::sum(const at::Tensor& x) const {
  return exchanged(ranks, x, summing(ranks, what), same);
}

at::Tensor Exchange::split(const at::Tensor& x, int64_t dim) const {
  return exchanged(ranks, x, taking_own(ranks, dim), joining(ranks, dim, what));
}

at::Tensor Exchange::join(const at::Tensor& x, int64_t dim) const {
  return exchanged(ranks, x, joining(ranks, dim, what), taking_own(ranks, dim));
}

at::Tensor Exchange::gather(const at::Tensor& x, int64_t dim) const {
  return exchanged(ranks, x, joining(ranks, dim, what), summing_own(ranks, dim, what));
}

at::Tensor Exchange::scatter_sum(const at::Tensor& x, int64_t dim) const {
  return exchanged(ranks, x, summing_own(ranks, dim, what), joining(ranks, dim, what));
}

at::Tensor Exchange::tokens_to_features(const at::Tensor& x, int64_t blocks) const {
  return exchanged(ranks, x, to_features(ranks, blocks, what), to_tokens(ranks, blocks, what));
}

at::Tensor Exchange::features_to_tokens(const at::Tensor& x, int64_t blocks) const {
  return exchanged(ranks, x, to_tokens(ranks, blocks, what), to_features(ranks, blocks, what));
}

at::Tensor pad_tokens(const at::Tensor& x, int64_t count) {
  return x.size(1) == count ? x : at::constant_pad_nd(x, {0, 0, 0, count - x.size(1)});
}

}  // namespace fovea::parallel
