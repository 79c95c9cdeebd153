#include "fovea/kernels/linear/fp8.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/linear/matrix_products.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

using CastResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr int64_t kFp8Chunk = 16384;  // elements; what a thread takes at a time

at::ScalarType dtype_of(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
}

Fp8Format format_of(at::ScalarType dtype) {
  return dtype == at::kFloat8_e4m3fn ? Fp8Format::kE4M3 : Fp8Format::kE5M2;
}

// f(format) with a constant, for templates to be chosen by.
template <class F>
void with_format(Fp8Format format, const F& f) {
  if (format == Fp8Format::kE4M3) {
    f(std::integral_constant<Fp8Format, Fp8Format::kE4M3>());
  } else {
    f(std::integral_constant<Fp8Format, Fp8Format::kE5M2>());
  }
}

// f(begin, count) for chunks of so many elements, in parallel.
template <class F>
void each_chunk(int64_t count, const F& f) {
  cpu::for_ranges((count + kFp8Chunk - 1) / kFp8Chunk, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      f(c * kFp8Chunk, std::min(kFp8Chunk, count - c * kFp8Chunk));
    }
  });
}

// x: contiguous, not empty.
template <class T>
uint32_t largest_bits(const at::Tensor& x) {
  const auto* values = x.const_data_ptr<T>();
  std::vector<uint32_t> largest((x.numel() + kFp8Chunk - 1) / kFp8Chunk);
  each_chunk(x.numel(), [&](int64_t begin, int64_t count) {
    uint32_t bits = 0;
    for (int64_t i = begin; i < begin + count; ++i) {
      bits = std::max(bits, magnitude_bits(static_cast<float>(values[i])));
    }
    largest[static_cast<size_t>(begin / kFp8Chunk)] = bits;
  });
  return *std::max_element(largest.begin(), largest.end());
}

// fovea::fp8_largest on the CPU.
at::Tensor fp8_largest_cpu(const at::Tensor& x) {
  auto largest = at::empty({1}, x.options().dtype(at::kFloat));
  uint32_t bits = 0;
  if (x.numel() > 0) {
    bits = x.scalar_type() == at::kFloat ? largest_bits<float>(x) : largest_bits<at::BFloat16>(x);
  }
  *largest.mutable_data_ptr<float>() = float_of_bits(bits);
  return largest;
}

template <Fp8Format kFormat, class T>
void encode(const at::Tensor& x, float scale, const at::Tensor& codes) {
  const auto* from = x.const_data_ptr<T>();
  auto* to = static_cast<uint8_t*>(codes.mutable_data_ptr());
  each_chunk(x.numel(), [&](int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) {
      to[i] = fp8_code<kFormat>(fp8_scaled(static_cast<float>(from[i]), scale));
    }
  });
}

// fovea::fp8_cast on the CPU: rows alone.
CastResult fp8_cast_cpu(const at::Tensor& x, const at::Tensor& largest, int64_t margin,
                        at::ScalarType dtype, bool /*rows*/, bool /*columns*/,
                        const std::optional<at::Tensor>& seen) {
  const auto format = format_of(dtype);
  const int exponent =
      fp8_exponent(*largest.const_data_ptr<float>(), format, static_cast<int>(margin));
  const auto codes = at::empty(x.sizes(), x.options().dtype(dtype));
  with_format(format, [&](auto constant) {
    const float scale = power_of_two(exponent);
    if (x.scalar_type() == at::kFloat) {
      encode<constant(), float>(x, scale, codes);
    } else {
      encode<constant(), at::BFloat16>(x, scale, codes);
    }
  });
  if (seen) {
    auto* value = seen->mutable_data_ptr<float>();
    const auto own = fp8_largest_cpu(x);
    *value = float_of_bits(
        std::max(magnitude_bits(*value), magnitude_bits(*own.const_data_ptr<float>())));
  }
  const auto inverse = at::empty({1}, largest.options());
  *inverse.mutable_data_ptr<float>() = power_of_two(-exponent);
  return {codes, {}, inverse};
}

// On the meta device, which stands for a GPU that multiplies FP8.
at::Tensor fp8_largest_meta(const at::Tensor& x) {
  return at::empty({1}, x.options().dtype(at::kFloat));
}

CastResult fp8_cast_meta(const at::Tensor& x, const at::Tensor& largest, int64_t /*margin*/,
                         at::ScalarType dtype, bool rows, bool columns,
                         const std::optional<at::Tensor>& /*seen*/) {
  const auto codes = x.options().dtype(dtype);
  const int64_t padded = (x.size(0) + kFp8Alignment - 1) / kFp8Alignment * kFp8Alignment;
  return {rows ? at::empty(x.sizes(), codes) : at::Tensor(),
          columns ? at::empty({x.size(1), padded}, codes) : at::Tensor(),
          at::empty({1}, largest.options())};
}

// On the CPU. -> [M, K] bfloat16, each value as it is: a product of 4 bits at most and a power of
// two.
at::Tensor values_of_codes(const Fp8Matrix& matrix) {
  std::array<at::BFloat16, 256> value_of;
  const float inverse = *matrix.inverse_scale.const_data_ptr<float>();
  with_format(matrix.format, [&](auto constant) {
    for (size_t code = 0; code < value_of.size(); ++code) {
      value_of[code] = fp8_value<constant()>(static_cast<uint8_t>(code)) * inverse;
    }
  });
  auto values = at::empty(matrix.rows.sizes(), matrix.rows.options().dtype(at::kBFloat16));
  const auto* codes = static_cast<const uint8_t*>(matrix.rows.const_data_ptr());
  auto* to = values.mutable_data_ptr<at::BFloat16>();
  each_chunk(values.numel(), [&](int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) to[i] = value_of[codes[i]];
  });
  return values;
}

// On a GPU. a: [R, S], b: [T, S], codes -> a b^T: [R, T].
at::Tensor scaled_product(const at::Tensor& a, const Fp8Matrix& of_a, const at::Tensor& b,
                          const Fp8Matrix& of_b, const at::Tensor& bias, at::ScalarType dtype) {
  // Sums with fewer bits are for the forward pass alone: gradients need the range below.
  const bool is_forward = of_a.format == Fp8Format::kE4M3 && of_b.format == Fp8Format::kE4M3;
  return at::_scaled_mm(a, b.t(), of_a.inverse_scale, of_b.inverse_scale, where_defined(bias),
                        /*scale_result=*/{}, dtype, /*use_fast_accum=*/is_forward);
}

const auto& fp8_largest_op() {
  static const auto op = find_operator<at::Tensor(const at::Tensor&)>("fovea::fp8_largest");
  return op;
}

const auto& fp8_cast_op() {
  static const auto op =
      find_operator<CastResult(const at::Tensor&, const at::Tensor&, int64_t, at::ScalarType, bool,
                               bool, const std::optional<at::Tensor>&)>("fovea::fp8_cast");
  return op;
}

const auto& has_fp8_products_op() {
  static const auto op = find_operator<bool(const at::Tensor&)>("fovea::has_fp8_products");
  return op;
}

void check_dtype(const char* what, const at::Tensor& x) {
  FOVEA_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16,
              "{}: {}; expected float32 or bfloat16", what, x.toString());
}

void check_number(const char* what, const at::Tensor& number, const at::Tensor& x) {
  FOVEA_CHECK(number.defined() && number.numel() == 1 && number.scalar_type() == at::kFloat &&
                  number.device() == x.device(),
              "fp8_cast: {} is {}; expected one float32 on {}", what,
              number.defined() ? number.toString() : "undefined", x.device().str());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("has_fp8_products(Tensor x) -> bool");
  m.def("fp8_largest(Tensor x) -> Tensor");
  m.def(
      "fp8_cast(Tensor x, Tensor largest, int margin, ScalarType dtype, bool rows, bool columns, "
      "Tensor(a!)? seen) -> (Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  m.impl("has_fp8_products", [](const at::Tensor& /*x*/) { return false; });
  m.impl("fp8_largest", fp8_largest_cpu);
  m.impl("fp8_cast", fp8_cast_cpu);
}
TORCH_LIBRARY_IMPL(fovea, Meta, m) {
  m.impl("has_fp8_products", [](const at::Tensor& /*x*/) { return true; });
  m.impl("fp8_largest", fp8_largest_meta);
  m.impl("fp8_cast", fp8_cast_meta);
}

bool has_fp8_products(c10::Device device) {
  return has_fp8_products_op().call(at::empty({0}, at::TensorOptions().device(device)));
}

at::Tensor fp8_largest(const at::Tensor& x) {
  check_dtype("fp8_largest", x);
  return fp8_largest_op().call(x.contiguous());
}

Fp8Matrix fp8_cast(const at::Tensor& x, const at::Tensor& largest, const Fp8CastOptions& options) {
  check_dtype("fp8_cast", x);
  FOVEA_CHECK(x.dim() == 2 && x.size(1) % kFp8Alignment == 0,
              "fp8_cast: a matrix of {}; expected [M, K] with K a multiple of {}",
              c10::str(x.sizes()), kFp8Alignment);
  check_number("the largest value", largest, x);
  if (options.seen.defined()) check_number("what was seen", options.seen, x);
  Fp8Matrix matrix{.format = options.format};
  std::tie(matrix.rows, matrix.columns, matrix.inverse_scale) =
      fp8_cast_op().call(x.contiguous(), largest, options.margin, dtype_of(options.format),
                         options.rows, options.columns, where_defined(options.seen));
  return matrix;
}

at::Tensor fp8_product(const Fp8Matrix& x, const Fp8Matrix& weight, const at::Tensor& bias) {
  if (x.rows.is_cpu()) return product(values_of_codes(x), values_of_codes(weight), bias);
  return scaled_product(x.rows, x, weight.rows, weight, bias, at::kBFloat16);
}

at::Tensor fp8_input_gradient(const Fp8Matrix& dy, const Fp8Matrix& weight) {
  if (dy.rows.is_cpu()) return input_gradient(values_of_codes(dy), values_of_codes(weight));
  return scaled_product(dy.rows, dy, weight.columns, weight, {}, at::kBFloat16);
}

at::Tensor fp8_weight_gradient(const Fp8Matrix& dy, const Fp8Matrix& x) {
  const auto& device_of = dy.inverse_scale;
  if (device_of.is_cpu())
    return weight_gradients(values_of_codes(dy), values_of_codes(x), /*wants_bias=*/false).weight;
  return scaled_product(dy.columns, dy, x.columns, x, {}, at::kFloat);
}

}  // namespace fovea::kernels
