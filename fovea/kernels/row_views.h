// Tensors as matrices of rows, and vectors as floats: how products and norms take what they get.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

#include <optional>
#include <vector>

#include "fovea/kernels/elementwise/float_rows.h"

namespace fovea::kernels {

// x: [..., D] -> [M, D], a view where its rows allow. Without a call to libtorch for a matrix, and
// with a single one for dense tensors: a layer of a few hundred rows takes about as long as ten.
inline at::Tensor as_rows(const at::Tensor& x) {
  if (x.dim() == 2) return x;
  // Not by -1, which is ambiguous for an empty tensor.
  const auto M = c10::multiply_integers(x.sizes().slice(0, x.dim() - 1));
  return x.is_contiguous() ? x.view({M, x.size(-1)}) : x.reshape({M, x.size(-1)});
}

// The same with rows one behind another.
inline at::Tensor as_dense_rows(const at::Tensor& x) { return as_rows(x).contiguous(); }

// A parameter as norms and residuals take it: dense float32; none where it is undefined.
inline std::optional<at::Tensor> float_or_none(const at::Tensor& x) {
  if (!x.defined()) return std::nullopt;
  return x.scalar_type() == at::kFloat ? x.contiguous() : x.to(at::kFloat).contiguous();
}

// The values of a vector of float32 or bfloat16, as float32.
class FloatsOf {
 public:
  explicit FloatsOf(const at::Tensor& x) {  // undefined: null
    if (!x.defined()) return;
    dense_ = x.contiguous();
    rows_.emplace(dense_, dense_.numel());
  }

  // May lie in memory of the thread, until it reads others.
  const float* read() const {
    if (!rows_) return nullptr;
    thread_local std::vector<float> floats;
    const auto size = static_cast<size_t>(dense_.numel());
    if (floats.size() < size) floats.resize(size);
    return rows_->read(0, floats.data());
  }

 private:
  at::Tensor dense_;
  std::optional<FloatRows> rows_;
};

}  // namespace fovea::kernels
