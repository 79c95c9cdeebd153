// B batch, H heads, n tokens of a rank, K head_dim, R ranks.
#include "fovea/parallel/ring_attention.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/partial_attention.h"
#include "fovea/kernels/saved_activation.h"

namespace fovea::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RingHolder : torch::CustomClassHolder {
  explicit RingHolder(Ring given) : ring(std::move(given)) {}
  Ring ring;
};

// A tensor that goes round: this rank works on it while it is sent on.
class Traveller {
 public:
  Traveller(const Ring& ring, at::Tensor own, const char* name)
      : ring_(ring), here_(std::move(own)), name_(ring.what + name) {}

  const at::Tensor& here() const { return here_; }

  void start() {
    next_ = at::empty_like(here_);
    under_way_ = ring_.ranks.start_shift(next_, here_, name_);
  }

  // That of the rank before is here now. Nothing happens where nothing was started.
  void arrive() {
    if (!under_way_) return;
    under_way_->wait();
    under_way_ = nullptr;
    here_ = std::move(next_);
  }

 private:
  const Ring& ring_;
  at::Tensor here_, next_;
  std::string name_;
  std::unique_ptr<Pending> under_way_;
};

// The keys that are here in round `round`: whose they are, and how many are no padding.
struct Keys {
  int64_t first = 0;
  int64_t count = 0;
};

Keys keys_in_round(const Ring& ring, int64_t round, int64_t tokens_of_rank) {
  const auto size = ring.ranks.size();
  const auto first = (ring.ranks.rank() - round + size) % size * tokens_of_rank;
  return {first, std::clamp<int64_t>(ring.tokens - first, 0, tokens_of_rank)};
}

// The part of a mask [B, N]; undefined stays so.
at::Tensor mask_of(const at::Tensor& key_mask, const Keys& keys) {
  return key_mask.defined() ? key_mask.narrow(1, keys.first, keys.count) : key_mask;
}

// exp(part - whole), zero where the part has no keys.
at::Tensor share(const at::Tensor& part, const at::Tensor& whole) {
  return at::exp(part - whole).masked_fill_(part.isneginf(), 0.0).unsqueeze(-1);
}

class RingAttentionFunction : public kernels::SavingFunction<RingAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& mask,
                            double scale, const c10::intrusive_ptr<RingHolder>& holder) {
    const auto key_mask = mask.value_or(at::Tensor());
    const auto& ring = holder->ring;
    const auto size = ring.ranks.size();
    Traveller pairs(ring, at::stack({k, v}), "");
    at::Tensor out, log_sum;  // of the keys so far; sums of float32, or float64
    for (int64_t round = 0; round < size; ++round) {
      if (round + 1 < size) pairs.start();
      const auto keys = keys_in_round(ring, round, q.size(2));
      if (keys.count > 0) {
        const auto here = pairs.here().narrow(3, 0, keys.count);
        const auto part =
            kernels::partial_attention(q, here[0], here[1], scale, mask_of(key_mask, keys));
        join(part, out, log_sum);
      }
      pairs.arrive();
    }
    out = out.to(q.scalar_type());
    if (ctx == nullptr) return out;
    using kernels::save_activation;
    ctx->save_for_backward({save_activation(q), save_activation(k), save_activation(v), key_mask,
                            save_activation(out), log_sum});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["ring"] = at::IValue::make_capsule(holder);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto read = [&](size_t i) {
      return kernels::read_activation(saved[i], gradients[0].scalar_type());
    };
    const auto q = read(0), out = read(4);
    const auto &key_mask = saved[3], &log_sum = saved[5];
    const auto capsule = ctx->saved_data.at("ring").toCapsule();
    const auto& ring = static_cast<RingHolder&>(*capsule).ring;
    const auto scale = ctx->saved_data.at("scale").toDouble();
    const auto size = ring.ranks.size();
    Traveller pairs(ring, at::stack({read(1), read(2)}), "");
    const auto sums = pairs.here().options().dtype(log_sum.scalar_type());
    Traveller of_pairs(ring, at::zeros(pairs.here().sizes(), sums), ", gradients");
    auto dq = at::zeros(q.sizes(), sums);
    for (int64_t round = 0; round < size; ++round) {
      if (round + 1 < size) pairs.start();
      const auto keys = keys_in_round(ring, round, q.size(2));
      kernels::AttentionGradients part;
      if (keys.count > 0) {
        const auto here = pairs.here().narrow(3, 0, keys.count);
        part = kernels::partial_attention_backward(gradients[0], q, here[0], here[1], out, log_sum,
                                                   scale, mask_of(key_mask, keys));
        dq += part.q;
      }
      of_pairs.arrive();
      if (keys.count > 0) {
        const auto here = of_pairs.here().narrow(3, 0, keys.count);
        here[0] += part.k;
        here[1] += part.v;
      }
      of_pairs.start();  // behind the last round back to its owner
      pairs.arrive();
    }
    of_pairs.arrive();
    const auto dtype = q.scalar_type();
    const auto& own = of_pairs.here();
    return {dq.to(dtype), own[0].to(dtype), own[1].to(dtype), {}, {}, {}};
  }

 private:
  static void join(const kernels::PartialAttention& part, at::Tensor& out, at::Tensor& log_sum) {
    const auto dtype = part.log_sum.scalar_type();
    if (!out.defined()) {
      out = part.out.to(dtype);
      log_sum = part.log_sum;
      return;
    }
    const auto whole = at::logaddexp(log_sum, part.log_sum);
    out = out * share(log_sum, whole) + part.out.to(dtype) * share(part.log_sum, whole);
    log_sum = whole;
  }
};

}  // namespace

at::Tensor ring_attention(const Ring& ring, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, double scale, const at::Tensor& key_mask) {
  const auto ranks = ring.ranks.size();
  FOVEA_CHECK(ring.tokens > 0 && ring.tokens <= ranks * q.size(2) &&
                  (!key_mask.defined() || key_mask.size(1) == ring.tokens),
              "{}: {} tokens, of which each of {} ranks has {}, and a mask of {}", ring.what,
              ring.tokens, ranks, q.size(2), key_mask.defined() ? key_mask.size(1) : ring.tokens);
  return RingAttentionFunction::apply(q, k, v,
                                      key_mask.defined() ? std::optional(key_mask) : std::nullopt,
                                      scale, c10::make_intrusive<RingHolder>(ring));
}

}  // namespace fovea::parallel
