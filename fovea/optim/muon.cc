#include "fovea/optim/muon.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/adamw_loop.h"
#include "fovea/optim/adamw_rule.h"
#include "fovea/optim/newton_schulz.h"

namespace fovea::optim {
namespace {

struct Matrix {
  at::Tensor value, grad, momentum_buffer;  // [M, N], or a part of it
  std::optional<kernels::TensorPart> part;
  bool is_counted;
  double lr_scale, weight_decay;
  int64_t num_parts;  // along M, each orthogonalised by itself
};

// Up to here a matrix is one thread's work: splitting its products would cost more than they do.
// The split is of the same bits either way.
constexpr int64_t kSmallMatrix = int64_t{1} << 17;  // elements

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

class Muon final : public FlatOptimizer {
 public:
  Muon(const MuonConfig& config, std::vector<ParamSpec> params, Implementation implementation)
      : FlatOptimizer("muon", std::move(params)),
        config_(config),
        rule_{config.betas.at(0), config.betas.at(1), config.eps} {
    const auto values = flat().views(flat().param()), grads = flat().views(flat().grad());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto& spec = this->params()[i];
      if (spec.shape().size() == 2 && c10::multiply_integers(spec.shape()) > 0 &&
          matches_any(config.matrices, spec.name)) {
        add_matrix(i, values[i], grads[i]);
      } else {
        add_to_adamw(i, values[i]);
      }
    }
    if (small_matrices_.empty() && large_matrices_.empty()) {
      fail<ConfigError>(
          "optim.matrices=[{}]: no trained parameter of two dims has such a name, so Muon has "
          "nothing to do; name the weight matrices of this model's blocks, or use adamw",
          fmt::join(config.matrices, ", "));
    }
    if (!use_fused(implementation, flat(), name())) {
      groups_ = plain_groups(flat(), adamw_params_, {exp_avg_, exp_avg_sq_});
    }
  }

 private:
  void add_matrix(size_t i, const at::Tensor& value, const at::Tensor& grad) {
    const auto& spec = params()[i];
    const bool is_split =
        config_.split_qkv && spec.name.ends_with("qkv.weight") && spec.shape()[0] % 3 == 0;
    // Parts are put together one matrix after the other, on every process alike.
    const bool is_small = !spec.part && value.numel() <= kSmallMatrix;
    auto& matrices = is_small ? small_matrices_ : large_matrices_;
    matrices.push_back({value, grad, at::zeros_like(value), spec.part, spec.is_counted,
                        spec.lr_scale, spec.weight_decay, is_split ? 3 : 1});
    add_state("momentum_buffer", i, matrices.back().momentum_buffer);
  }

  void add_to_adamw(size_t i, const at::Tensor& value) {
    adamw_params_.push_back(i);
    adamw_segments_.push_back(flat().segments()[i]);
    exp_avg_.push_back(at::zeros_like(value));
    exp_avg_sq_.push_back(at::zeros_like(value));
    add_state("exp_avg", i, exp_avg_.back());
    add_state("exp_avg_sq", i, exp_avg_sq_.back());
  }

  void update(double lr) override {
    const auto num_small = static_cast<int64_t>(small_matrices_.size());
    at::parallel_for(0, num_small, 1, [&](int64_t begin, int64_t end) {
      const at::NoGradGuard no_grad;  // modes are a thread's own
      for (int64_t i = begin; i < end; ++i) update_matrix(small_matrices_[i], lr);
    });
    for (const auto& matrix : large_matrices_) update_matrix(matrix, lr);
    const double adamw_lr = lr * config_.adamw_lr_scale;
    for (auto& group : groups_) rule_.update(group, adamw_lr, steps_taken());
    if (groups_.empty()) update_fused(adamw_lr);
  }

  void update_matrix(const Matrix& matrix, double lr) const {
    const double own_lr = lr * matrix.lr_scale;
    matrix.momentum_buffer.lerp_(matrix.grad, 1 - config_.momentum);
    const auto update = config_.nesterov
                            ? matrix.grad.lerp(matrix.momentum_buffer, config_.momentum)
                            : matrix.momentum_buffer;
    matrix.value.mul_(1 - own_lr * matrix.weight_decay);
    if (matrix.part) {
      const auto step = orthogonalized(matrix, joined(matrix, update));
      matrix.value.add_(kernels::take_part(*matrix.part, step, matrix.value.sizes()), -own_lr);
      return;
    }
    const auto parts = matrix.value.chunk(matrix.num_parts);
    const auto updates = update.chunk(matrix.num_parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].add_(newton_schulz(updates[i], config_.ns_steps), -own_lr * lr_factor(parts[i]));
    }
  }

  // The whole of an update of which each process has a part. -> [M, N]
  at::Tensor joined(const Matrix& matrix, const at::Tensor& update) const {
    const auto whole = matrix.is_counted ? kernels::spread_part(*matrix.part, update)
                                         : at::zeros(matrix.part->shape, update.options());
    sum_over_parts()(whole);
    return whole;
  }

  at::Tensor orthogonalized(const Matrix& matrix, const at::Tensor& update) const {
    std::vector<at::Tensor> parts;
    for (const auto& part : update.chunk(matrix.num_parts)) {
      parts.push_back(newton_schulz(part, config_.ns_steps).to(update.scalar_type()));
      parts.back().mul_(lr_factor(part));
    }
    return at::cat(parts);
  }

  double lr_factor(const at::Tensor& matrix) const {
    const auto rows = static_cast<double>(matrix.size(0)),
               columns = static_cast<double>(matrix.size(1));
    return config_.adjust_lr == "original" ? std::sqrt(std::max(1.0, rows / columns))
                                           : 0.2 * std::sqrt(std::max(rows, columns));
  }

  void update_fused(double lr) {
    float* param = flat().param().data_ptr<float>();
    const float* grad = flat().grad().const_data_ptr<float>();
    for_each_tile(adamw_segments_, [&](size_t i, int64_t begin, int64_t end) {
      const auto& spec = params()[adamw_params_[i]];
      const int64_t inside = begin - adamw_segments_[i].begin;
      kernels::cpu::adamw_update(
          param + begin, grad + begin, exp_avg_[i].data_ptr<float>() + inside,
          exp_avg_sq_[i].data_ptr<float>() + inside, end - begin,
          rule_.coefficients(lr * spec.lr_scale, spec.weight_decay, steps_taken()));
    });
  }

  MuonConfig config_;
  std::vector<Matrix> small_matrices_, large_matrices_;

  AdamWRule rule_;
  std::vector<size_t> adamw_params_;
  std::vector<Segment> adamw_segments_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;  // as adamw_params_
  std::vector<PlainGroup> groups_;                // empty where the fused update is used
};

}  // namespace

void MuonConfig::validate(ConfigIssues& issues) const {
  validate_betas(betas, issues);
  if (matrices.empty()) {
    issues.add("matrices",
               "an empty list; expected at least one name or pattern, such as "
               "'*blocks.*.weight'");
  }
}

std::unique_ptr<Optimizer> make_muon(const MuonConfig& config, std::vector<ParamSpec> params,
                                     Implementation implementation) {
  return std::make_unique<Muon>(config, std::move(params), implementation);
}

}  // namespace fovea::optim
