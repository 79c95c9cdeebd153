// M matrices of R rows and C columns: the last two dims of a parameter are R and C; those in front
// of them number its matrices.
#include "fovea/optim/adafactor.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fovea/optim/clip.h"
#include "fovea/optim/flat_optimizer.h"
#include "fovea/optim/part_rows.h"

namespace fovea::optim {
namespace {

struct Factored {
  at::Tensor value, grad;  // of this process: one part of the whole, or the whole
  // [M, R] and [M, C] of the whole; undefined for fewer than two dims
  at::Tensor row_var = {}, col_var = {};
  at::Tensor variance = {};                     // as value, for fewer than two dims
  int64_t matrices = 1, rows = 1, columns = 1;  // M, R and C
  // Which rows and columns of the whole the cut has that `value` is of: [r], [c] int64.
  at::Tensor row_indices = {}, column_indices = {};
};

// A part of the cut as rows of single matrices: whole ones where there are many, else rows of the
// one.
struct PartMatrices {
  PartRows part;
  int64_t first_matrix = 0, first_row = 0;  // where `values` starts
  at::Tensor values = {};                   // [matrices, rows, c]
};

PartMatrices matrices_of(const Factored& of, const at::Tensor& part, int64_t first) {
  const bool is_one = of.matrices == 1;
  const auto num_rows = of.row_indices.size(0), columns = of.column_indices.size(0);
  auto rows = whole_rows(part, first, is_one ? columns : num_rows * columns);
  PartMatrices result{.part = rows};
  (is_one ? result.first_row : result.first_matrix) = rows.begin;
  result.values = is_one ? rows.values.unsqueeze(0)
                         : rows.values.view({rows.values.size(0), num_rows, columns});
  return result;
}

// Over the last dim, of a copy in which that is contiguous: such sums are one thread's each.
at::Tensor squared_sums(const at::Tensor& x) { return x.square().contiguous().sum(-1); }

class Adafactor final : public FlatOptimizer {
 public:
  Adafactor(const AdafactorConfig& config, std::vector<ParamSpec> params)
      : FlatOptimizer("adafactor", std::move(params)),
        config_(config),
        eps1_(config.eps1.value_or(std::numeric_limits<float>::epsilon())) {
    const auto values = flat().views(flat().param()), grads = flat().views(flat().grad());
    for (size_t i = 0; i < values.size(); ++i) add_param(i, values[i], grads[i]);
  }

 private:
  void add_param(size_t i, const at::Tensor& value, const at::Tensor& grad) {
    auto& item = items_.emplace_back(Factored{.value = value, .grad = grad});
    const auto shape = params()[i].shape().vec();
    if (shape.size() < 2) {
      item.variance = at::zeros_like(value);
      add_state("variance", i, item.variance);
      return;
    }
    auto rows = shape, columns = shape;
    rows.back() = 1;
    columns[columns.size() - 2] = 1;
    item.rows = shape[shape.size() - 2];
    item.columns = shape.back();
    item.matrices = c10::multiply_integers(shape.begin(), shape.end() - 2);
    const auto part = params()[i].whole_part();
    const auto last = static_cast<int64_t>(shape.size()) - 1;
    item.row_indices = kernels::indices_in_whole(part, last - 1).to(value.device());
    item.column_indices = kernels::indices_in_whole(part, last).to(value.device());
    const auto row_var = at::zeros(rows, value.options());     // [..., R, 1]
    const auto col_var = at::zeros(columns, value.options());  // [..., 1, C]
    item.row_var = row_var.view({item.matrices, item.rows});
    item.col_var = col_var.view({item.matrices, item.columns});
    add_state("row_var", i, row_var);
    add_state("col_var", i, col_var);
  }

  bool is_empty(size_t i) const {
    return c10::multiply_integers(params()[i].shape()) == 0;  // of the whole: equal everywhere
  }

  // Of whole parameters one after the other, which needs room for one direction; of parts all at
  // once, which needs two collectives.
  void update(double lr) override {
    if (sum_over_parts()) return update_range(0, items_.size(), lr);
    for (size_t i = 0; i < items_.size(); ++i) update_range(i, i + 1, lr);
  }

  void update_range(size_t begin, size_t end, double lr) {
    const auto step = static_cast<double>(steps_taken());
    const double share = std::pow(step, config_.beta2_decay);
    take_in_factors(begin, end, share);
    std::vector<double> sizes(2 * (end - begin));  // norms of the values, then of the directions
    std::vector<at::Tensor> directions;
    for (size_t i = begin; i < end; ++i) {
      directions.push_back(is_empty(i) ? at::Tensor() : direction(i, share));
      if (!params()[i].is_counted) continue;
      sizes[i - begin] = global_norm(items_[i].value);
      if (directions.back().defined()) sizes[end + i - 2 * begin] = global_norm(directions.back());
    }
    join_norms(sizes, sum_over_parts());
    for (size_t i = begin; i < end; ++i) {
      if (is_empty(i)) continue;
      const auto& spec = params()[i];
      const auto& value = items_[i].value;
      const double root = std::sqrt(static_cast<double>(c10::multiply_integers(spec.shape())));
      const double own_lr = lr * spec.lr_scale, relative = std::min(own_lr, 1 / std::sqrt(step));
      const double size = std::max(config_.eps2, sizes[i - begin] / root) * relative;
      if (spec.weight_decay != 0) value.mul_(1 - own_lr * spec.weight_decay);
      const double excess =
          std::max(1.0, sizes[end + i - 2 * begin] / root / config_.clip_threshold);
      value.add_(directions[i - begin], -size / excess);
    }
  }

  // The gradients' squares, averaged over columns and over rows, into row_var and col_var.
  void take_in_factors(size_t begin, size_t end, double share) {
    std::vector<at::Tensor> squares;  // [M * (R + C)] of each
    for (size_t i = begin; i < end; ++i) {
      const auto& item = items_[i];
      if (item.variance.defined() || is_empty(i)) continue;
      auto both = at::zeros({item.matrices * (item.rows + item.columns)}, item.value.options());
      if (item.value.numel() > 0 && params()[i].is_counted)
        add_squares(item, params()[i].first(), both);
      squares.push_back(std::move(both));
    }
    if (sum_over_parts() && !squares.empty()) {
      const auto all = at::cat(squares);
      sum_over_parts()(all);
      int64_t at = 0;
      for (auto& both : squares) {
        both = all.narrow(0, at, both.numel());
        at += both.numel();
      }
    }
    size_t next = 0;
    for (size_t i = begin; i < end; ++i) {
      const auto& item = items_[i];
      if (item.variance.defined() || is_empty(i)) continue;
      const auto [of_rows, of_columns] = split(item, squares[next++]);
      item.row_var.lerp_(of_rows.div(item.columns), share);
      item.col_var.lerp_(of_columns.div(item.rows), share);
    }
  }

  static std::pair<at::Tensor, at::Tensor> split(const Factored& item, const at::Tensor& both) {
    const auto rows = item.matrices * item.rows;
    return {both.narrow(0, 0, rows).view({item.matrices, item.rows}),
            both.narrow(0, rows, both.numel() - rows).view({item.matrices, item.columns})};
  }

  static void add_squares(const Factored& item, int64_t first, const at::Tensor& both) {
    const auto grad = matrices_of(item, item.grad, first);
    const auto [of_rows, of_columns] = split(item, both);
    of_rows.narrow(0, grad.first_matrix, grad.values.size(0))
        .index_copy_(1, rows_of(item, grad), squared_sums(grad.values));
    of_columns.narrow(0, grad.first_matrix, grad.values.size(0))
        .index_copy_(1, item.column_indices, squared_sums(grad.values.transpose(-2, -1)));
  }

  // The rows of the whole that a part has.
  static at::Tensor rows_of(const Factored& item, const PartMatrices& part) {
    return item.row_indices.narrow(0, part.first_row, part.values.size(1));
  }

  // The gradient over the root of the second moment's estimate, as the value; a tensor of its own.
  at::Tensor direction(size_t i, double share) const {
    const auto& item = items_[i];
    auto estimate = item.variance;
    if (item.variance.defined()) {
      item.variance.lerp_(item.grad.square(), share);
      estimate = item.variance.clone();
    } else if (item.value.numel() > 0) {
      const auto where = matrices_of(item, item.grad, params()[i].first());
      const auto count = where.values.size(0);
      const auto rows = item.row_var.narrow(0, where.first_matrix, count);  // [count, R]
      const auto columns = item.col_var.narrow(0, where.first_matrix, count)
                               .index_select(1, item.column_indices);  // [count, c]
      const auto mean = rows.mean(-1, /*keepdim=*/true).clamp_min(eps1_).unsqueeze(-1);
      const auto product = rows.index_select(1, rows_of(item, where)).unsqueeze(-1) *
                           columns.unsqueeze(-2);  // [count, rows, c]
      estimate = part_of_rows(where.part, product.div_(mean), item.value.numel())
                     .view(item.value.sizes())
                     .clone();
    } else {
      return at::zeros_like(item.value);
    }
    return estimate.clamp_min_(eps1_ * eps1_).rsqrt_().mul_(item.grad);
  }

  AdafactorConfig config_;
  double eps1_;
  std::vector<Factored> items_;  // as params()
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const AdafactorConfig& config,
                                          std::vector<ParamSpec> params) {
  return std::make_unique<Adafactor>(config, std::move(params));
}

}  // namespace fovea::optim
