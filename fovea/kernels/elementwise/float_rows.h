// Rows of tensors as float, for loops of the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstring>

#include "fovea/kernels/cpu/norm_rows.h"

namespace fovea::kernels {

// Rows of a [M, D] tensor of float32 or bfloat16, read and written as float whatever its dtype.
// Holds pointers: asking a tensor for them in every row costs as much as a short row.
class FloatRows {
 public:
  FloatRows(const at::Tensor& x, int64_t D)
      : D_(D), is_float_(x.scalar_type() == at::kFloat), data_(x.data_ptr()) {}

  // The row itself for float32, else converted into `scratch`.
  const float* read(int64_t row, float* scratch) const {
    if (is_float_) return floats() + row * D_;
    cpu::bfloat16_to_float(bits() + row * D_, D_, scratch);
    return scratch;
  }
  // Calls write(destination) with a row of float and leaves it in the tensor's dtype.
  template <class Write>
  void write(int64_t row, float* scratch, const Write& write) const {
    if (is_float_) {
      write(floats() + row * D_);
      return;
    }
    write(scratch);
    cpu::float_to_bfloat16(scratch, D_, bits() + row * D_);
  }
  // Row `from` of `other`, which is of the same dtype and width, bit by bit.
  void copy(int64_t row, const FloatRows& other, int64_t from) const {
    const int64_t bytes = D_ * (is_float_ ? 4 : 2);
    std::memcpy(static_cast<char*>(data_) + row * bytes,
                static_cast<const char*>(other.data_) + from * bytes, static_cast<size_t>(bytes));
  }

 private:
  float* floats() const { return static_cast<float*>(data_); }
  uint16_t* bits() const { return static_cast<uint16_t*>(data_); }

  int64_t D_;
  bool is_float_;
  void* data_;
};

}  // namespace fovea::kernels
