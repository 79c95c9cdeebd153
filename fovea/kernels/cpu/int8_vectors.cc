#include "fovea/kernels/cpu/int8_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

// Compiled once for each instruction set by Highway, which picks the best one at run time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fovea/kernels/cpu/int8_vectors.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "fovea/kernels/cpu/gelu.inc"
#include "fovea/kernels/cpu/highway_targets.h"
#include "fovea/kernels/cpu/int8_avx512.h"
#include "fovea/kernels/cpu/vector_memory.inc"

HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Ints = hn::RebindToSigned<Tag>;

// Registers of sums: 12 of the 16 that processors before AVX-512 have, 24 of its 32.
#if HWY_TARGET <= HWY_AVX3
constexpr int kPairRows = 12;
#else
constexpr int kPairRows = 6;
#endif
int64_t width_of_pairs() { return 2 * lanes(); }
int64_t rows_of_pairs() { return kPairRows; }

// Calls body(values) for all vectors of x; what is behind the last value is zero.
template <class T, class Body>
HWY_INLINE void for_each_vector(const T* x, int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) body(i, WholeVector().load(x + i));
  if (i < count) body(i, FewValues{count - i}.load(x + i));
}

// What codes between the least and the largest value stand for; NaN where one is not finite.
template <class T>
HWY_INLINE Int8Row row_of_own_range(const T* x, int64_t count) {
  const Tag d;
  auto least = hn::Zero(d), largest = hn::Zero(d), nan = hn::Zero(d);  // 0 among them
  for_each_vector(x, count, [&](int64_t, hn::Vec<Tag> values) HWY_ATTR {
    least = hn::Min(least, values);
    largest = hn::Max(largest, values);
    nan = hn::Add(nan, hn::Mul(values, hn::Zero(d)));  // of an infinity, too
  });
  if (hn::GetLane(hn::SumOfLanes(d, nan)) != 0) return kNoInt8Row;
  return int8_row({hn::GetLane(hn::MinOfLanes(d, least)), hn::GetLane(hn::MaxOfLanes(d, largest))});
}

// codes: room for a vector of them.
HWY_INLINE void store_codes(hn::Vec<Ints> codes, int64_t code_bytes, uint8_t* to) {
  const Ints d;
  const hn::Rebind<uint8_t, Ints> bytes;
  const hn::Rebind<int16_t, Ints> words;
  const auto kept = hn::Min(hn::Max(codes, hn::Zero(d)), hn::Set(d, 255));
  if (code_bytes == 1) {
    hn::StoreU(hn::DemoteTo(bytes, kept), bytes, to);
  } else {
    alignas(64) int16_t staged[kMostLanes];
    hn::Store(hn::DemoteTo(words, kept), words, staged);
    std::memcpy(to, staged, sizeof(int16_t) * hn::Lanes(words));
  }
}

// Whether all of x is finite, and its codes can be used. is_own: row is of the range of x, which
// is finite.
template <bool is_own, class T>
HWY_INLINE bool write_codes(const T* x, int64_t depth, const Int8Row& row, int64_t code_bytes,
                            uint8_t* codes) {
  const Tag d;
  const auto factor = hn::Set(d, row.scale > 0 ? 1 / row.scale : 0);
  const auto most = hn::Set(d, 255), least = hn::Neg(most);  // before what has no 32-bit integer
  const auto zero = hn::Set(Ints(), row.zero);
  auto nan = hn::Zero(d);
  for_each_vector(x, depth, [&](int64_t i, hn::Vec<Tag> values) HWY_ATTR {
    auto held = hn::Mul(values, factor);
    if constexpr (!is_own) {
      nan = hn::Add(nan, hn::Mul(values, hn::Zero(d)));
      held = hn::Min(hn::Max(held, least), most);
    }
    const auto shifted = hn::Add(hn::NearestInt(held), zero);
    auto* to = codes + i * code_bytes;
    if (i + lanes() <= depth) return store_codes(shifted, code_bytes, to);
    uint8_t staged[2 * kMostLanes];
    store_codes(shifted, code_bytes, staged);
    std::memcpy(to, staged, static_cast<size_t>((depth - i) * code_bytes));
  });
  return hn::GetLane(hn::SumOfLanes(d, nan)) == 0;
}

template <class T>
HWY_INLINE Int8Row quantized_row(const T* x, int64_t depth, const Int8Row* given,
                                 int64_t code_bytes, uint8_t* codes) {
  const auto row = given ? *given : row_of_own_range(x, depth);
  const bool is_written =
      !std::isnan(row.scale) && (given ? write_codes<false>(x, depth, row, code_bytes, codes)
                                       : write_codes<true>(x, depth, row, code_bytes, codes));
  if (is_written) return row;
  std::memset(codes, 0, static_cast<size_t>(depth * code_bytes));
  return kNoInt8Row;
}

template <class T>
HWY_INLINE void quantize_all(const Int8Values<T>& x, const Int8Row* given, const Int8Codes& codes) {
  for (int64_t r = 0; r < x.count; ++r) {
    codes.rows[r] = quantized_row(x.data + r * x.stride, x.depth, given, codes.code_bytes,
                                  codes.data + r * codes.stride);
  }
}

void quantize_float_rows(const Int8Values<float>& x, const Int8Row* given, const Int8Codes& codes) {
  quantize_all(x, given, codes);
}
void quantize_bfloat16_rows(const Int8Values<uint16_t>& x, const Int8Row* given,
                            const Int8Codes& codes) {
  quantize_all(x, given, codes);
}

// sum + the two products of 16-bit numbers that each 32 bits of a and b hold.
HWY_INLINE hn::Vec<Ints> add_products(hn::Vec<Ints> sum, hn::Vec<Ints> a, hn::Vec<Ints> b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  const hn::Repartition<int16_t, Ints> words;
  auto other = hn::Zero(Ints());  // stays as it is
  return hn::ReorderWidenMulAccumulate(Ints(), hn::BitCast(words, a), hn::BitCast(words, b), sum,
                                       other);
#else
  const auto low = [](hn::Vec<Ints> x)
                       HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(x)); };
  const auto high = [](hn::Vec<Ints> x) HWY_ATTR { return hn::ShiftRight<16>(x); };
  return hn::Add(sum, hn::Add(hn::Mul(low(a), low(b)), hn::Mul(high(a), high(b))));
#endif
}

HWY_INLINE int32_t group_at(const uint8_t* from) {
  int32_t group;
  std::memcpy(&group, from, sizeof(group));
  return group;
}

// Loops over rows and vectors must be unrolled: only then do the sums stand in registers.
void multiply_pairs(const Int8Factors& factors, bool adds, int32_t* sums) {
  const Ints d;
  hn::Vec<Ints> sum[kPairRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kPairRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      sum[r][v] = adds ? hn::LoadU(d, sums + (2 * r + v) * lanes()) : hn::Zero(d);
    }
  }
  const auto* rows = factors.rows;
  const auto* strip = reinterpret_cast<const int32_t*>(factors.strip);
  for (int64_t i = 0; i < factors.groups; ++i, rows += 4, strip += 2 * lanes()) {
    const auto first = hn::LoadU(d, strip), second = hn::LoadU(d, strip + lanes());
#pragma GCC unroll 12
    for (int r = 0; r < kPairRows; ++r) {
      const auto group = hn::Set(d, group_at(rows + r * factors.stride));
      sum[r][0] = add_products(sum[r][0], group, first);
      sum[r][1] = add_products(sum[r][1], group, second);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kPairRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) hn::StoreU(sum[r][v], d, sums + (2 * r + v) * lanes());
  }
}

// What a vector of columns makes of a row's sums. No multiplication is fused with an addition,
// which some processors do not have: compilers are told so (CMakeLists.txt).
class ColumnsEnd {
 public:
  template <class Memory>
  ColumnsEnd(const Memory& memory, const Int8Columns& columns)
      : scales_(hn::LoadU(Tag(), columns.scales)),
        sums_(hn::LoadU(Ints(), columns.sums)),
        bias_(columns.bias ? memory.load(columns.bias) : hn::Set(Tag(), -0.0f)) {}  // adds nothing

  HWY_INLINE hn::Vec<Tag> of(const Int8Row& row, const int32_t* sums) const {
    const Tag d;
    const Ints di;
    const auto shift = hn::Mul(hn::Set(di, row.zero), sums_);
    const auto sum = hn::ConvertTo(d, hn::Sub(hn::LoadU(di, sums), shift));
    return hn::Add(hn::Mul(sum, hn::Mul(hn::Set(d, row.scale), scales_)), bias_);
  }

 private:
  hn::Vec<Tag> scales_;
  hn::Vec<Ints> sums_;
  hn::Vec<Tag> bias_;
};

// A vector of columns, row after row: no row waits for what another's results are made of, so the
// processor works on several at once.
template <class Memory, class T>
HWY_INLINE void finish_columns(const Memory& memory, const Int8Sums& sums,
                               const Int8Columns& columns, const Int8Results<T>& results) {
  const ColumnsEnd end(memory, columns);
  const auto* residual = results.residual;
  auto *data = results.data, *gelu = results.gelu;
  for (int64_t r = 0; r < sums.count; ++r, data += results.stride) {
    auto x = end.of(sums.rows[r], sums.data + r * sums.width);
    if (residual) x = hn::Add(x, memory.load(residual + r * results.residual_stride));
    if (data != gelu) memory.store(x, data);
    if (!gelu) continue;
    memory.store(gelu_of(x, gelu_tail(x)), gelu);
    gelu += results.stride;
  }
}

template <class T>
HWY_INLINE void finish_all_columns(const Int8Sums& sums, const Int8Columns& columns,
                                   const Int8Results<T>& results) {
  for (int64_t c = 0; c < columns.count; c += lanes()) {
    const Int8Sums part{sums.data + c, sums.width, sums.rows, sums.count};
    const auto vector = columns.part(c, lanes());
    const auto to = results.part(0, c);
    if (vector.count == lanes()) {
      finish_columns(WholeVector(), part, vector, to);
    } else {
      finish_columns(FewValues{vector.count}, part, vector, to);
    }
  }
}

void finish_in_float(const Int8Sums& sums, const Int8Columns& columns,
                     const Int8Results<float>& results) {
  finish_all_columns(sums, columns, results);
}
void finish_in_bfloat16(const Int8Sums& sums, const Int8Columns& columns,
                        const Int8Results<uint16_t>& results) {
  finish_all_columns(sums, columns, results);
}

}  // namespace
}  // namespace fovea::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea::kernels::cpu {

HWY_EXPORT(quantize_float_rows);
HWY_EXPORT(quantize_bfloat16_rows);
HWY_EXPORT(width_of_pairs);
HWY_EXPORT(rows_of_pairs);
HWY_EXPORT(multiply_pairs);
HWY_EXPORT(finish_in_float);
HWY_EXPORT(finish_in_bfloat16);

namespace {

// Whether bfloat16 is for int8_avx512.h.
bool takes_avx512() { return kernel_paths().level(KernelOp::kLinear) >= KernelPath::kAvx512Bf16; }

}  // namespace

void quantize_rows(const Int8Values<float>& x, const Int8Row* given, const Int8Codes& codes) {
  FOVEA_DISPATCH(KernelOp::kLinear, quantize_float_rows)(x, given, codes);
}
void quantize_rows(const Int8Values<uint16_t>& x, const Int8Row* given, const Int8Codes& codes) {
  if (codes.code_bytes == 1 && takes_avx512()) return quantize_rows_in_avx512(x, given, codes);
  FOVEA_DISPATCH(KernelOp::kLinear, quantize_bfloat16_rows)(x, given, codes);
}

int64_t pairs_width() { return FOVEA_DISPATCH(KernelOp::kLinear, width_of_pairs)(); }
int64_t pairs_rows() { return FOVEA_DISPATCH(KernelOp::kLinear, rows_of_pairs)(); }

void multiply_block_of_pairs(const Int8Factors& factors, bool adds, int32_t* sums) {
  FOVEA_DISPATCH(KernelOp::kLinear, multiply_pairs)(factors, adds, sums);
}

void finish_rows(const Int8Sums& sums, const Int8Columns& columns,
                 const Int8Results<float>& results) {
  FOVEA_DISPATCH(KernelOp::kLinear, finish_in_float)(sums, columns, results);
}
void finish_rows(const Int8Sums& sums, const Int8Columns& columns,
                 const Int8Results<uint16_t>& results) {
  if (takes_avx512()) return finish_rows_in_avx512(sums, columns, results);
  FOVEA_DISPATCH(KernelOp::kLinear, finish_in_bfloat16)(sums, columns, results);
}

}  // namespace fovea::kernels::cpu
#endif
