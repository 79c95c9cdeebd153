// Products of float32 as sums of products of bfloat16, for processors that multiply bfloat16 many
// times as fast (AMX).
//
// Note [Split products]
// A float32 has 24 significant bits, a bfloat16 8: x = h + m + l, where h is x rounded to bfloat16,
// m what that left, rounded, and l the rest. No bit is lost but of values so small that the rest
// leaves bfloat16's range. Of the nine products of two such sums
//   bfloat16x6 takes hh + hm + mh + mm + hl + lh: what it leaves out is 2^-24 of hh and below, as
//              much as a float32 product is rounded by;
//   bfloat16x3 takes hh + hm + mh, and leaves out 2^-16.
// (Henry, Tang, Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations".) Each product is exact in float32, where the sums are taken.
//
// One product of bfloat16 makes all of it: the parts stand side by side in depth, [l h m m h h]
// against [h l m h m h], so that small terms are summed before large ones. It is that many times as
// deep. Without hardware for bfloat16 the parts are multiplied as float32: the same terms, several
// times as slow.
//
// A value that is not finite has no other parts, and its products with parts that are zero make
// NaN: of infinities a result is NaN, never a number.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace fovea::kernels {

enum class Float32Products { kFloat32, kBfloat16x6, kBfloat16x3 };

// device.float32_products, of linear layers on a CPU in this process: "float32", "bfloat16x6" or
// "bfloat16x3". Throws ConfigError.
void choose_float32_products(const std::string& name);
Float32Products float32_products();

// The parts of a [rows, columns], float32 of any strides, for the first factor of a product, or the
// second one, side by side along `depth_dim`, which is 3 or 6 times as long -> bfloat16.
enum class FactorPlace { kFirst, kSecond };
at::Tensor split_factor(const at::Tensor& a, FactorPlace place, int64_t depth_dim);

}  // namespace fovea::kernels
