// The 8-bit floats of Micikevicius et al. 2022 ("FP8 formats for deep learning"), and what scaling
// and rounding to them do to one element: the same for the loops on the CPU and the kernels on a
// GPU. Free of tensors.
#pragma once

#include <bit>
#include <cstdint>

#include "fovea/kernels/elementwise/update_elements.h"  // FOVEA_ELEMENT

namespace fovea::kernels {

enum class Fp8Format {
  kE4M3,  // 4 bits of exponent, 3 of mantissa, up to 448, no infinity: activations and weights
  kE5M2,  // 5 and 2, up to 57,344: gradients
};

template <Fp8Format kFormat>
struct Fp8Traits {
  static constexpr bool kIsE4M3 = kFormat == Fp8Format::kE4M3;
  static constexpr int kMantissaBits = kIsE4M3 ? 3 : 2;
  static constexpr int kLeastExponent = kIsE4M3 ? -6 : -14;  // of normal numbers
  static constexpr int kTopExponent = kIsE4M3 ? 8 : 15;  // the largest number is 1.75 times 2 to it
};

inline constexpr uint8_t kFp8NaN = 0x7F;
inline constexpr uint32_t kFloatInfinity = 0x7F800000;  // and above, without the sign: NaNs

FOVEA_ELEMENT uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

FOVEA_ELEMENT float float_of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// |value| as a number of which the larger one is the larger value, and NaN the largest.
FOVEA_ELEMENT uint32_t magnitude_bits(float value) { return bits_of(value) & 0x7FFFFFFF; }

FOVEA_ELEMENT float power_of_two(int exponent) {
  return float_of_bits(static_cast<uint32_t>(127 + exponent) << 23);
}

// Note [Scales of FP8]
// A tensor is multiplied by a scale before it is rounded, so that its largest value comes below the
// largest number of the format, and the product is divided by the scales of its factors. Scales are
// powers of two: then they move the exponent alone, so that nothing is rounded but by the format
// itself, and two scales give the same values but for those that come below the least normal
// number, about 2^-14 of the largest one in E4M3 and 2^-29 in E5M2. That is why a batch may be cut
// into micro-batches or shared out over ranks although each part then has a scale of its own.
//
// The exponent of the scale for a tensor whose largest value is `largest`: the largest power of two
// with which that stays within the format, less `margin`. 0 for a tensor of zeros, and where
// something is not finite.
FOVEA_ELEMENT int fp8_exponent(float largest, Fp8Format format, int margin) {
  constexpr int kMost = 120;  // the scale and its inverse are normal numbers
  constexpr uint32_t kMantissa = 0x7FFFFF, kThreeQuarters = 0x600000;
  const uint32_t bits = magnitude_bits(largest);
  if (bits == 0 || bits >= kFloatInfinity) return 0;
  const int top = format == Fp8Format::kE4M3 ? Fp8Traits<Fp8Format::kE4M3>::kTopExponent
                                             : Fp8Traits<Fp8Format::kE5M2>::kTopExponent;
  const int is_above = (bits & kMantissa) > kThreeQuarters ? 1 : 0;  // 1.75 times a power of two
  const int exponent = top - (static_cast<int>(bits >> 23) - 127) - is_above - margin;
  return exponent > kMost ? kMost : exponent < -kMost ? -kMost : exponent;
}

// What is rounded for x: NaN where x is not finite, so that it shows in the product.
FOVEA_ELEMENT float fp8_scaled(float x, float scale) {
  return magnitude_bits(x) < kFloatInfinity ? x * scale : float_of_bits(kFloatInfinity | 1);
}

// The code of a value, to nearest, ties to even; what is beyond the largest number becomes that.
template <Fp8Format kFormat>
FOVEA_ELEMENT uint8_t fp8_code(float value) {
  using Traits = Fp8Traits<kFormat>;
  constexpr int kShift = 23 - Traits::kMantissaBits;
  constexpr uint32_t kLeastNormal = static_cast<uint32_t>(127 + Traits::kLeastExponent) << 23;
  constexpr uint32_t kLargest =
      (static_cast<uint32_t>(127 + Traits::kTopExponent) << 23) | 0x600000;
  // The float whose last bit is the least number of the format: adding it rounds to those.
  constexpr uint32_t kRounder =
      static_cast<uint32_t>(127 + Traits::kLeastExponent - Traits::kMantissaBits + 23) << 23;
  // Both ways for every element, and a choice: loops over it are vectorised.
  const uint32_t given = magnitude_bits(value);
  const uint32_t bits = given < kLargest ? given : kLargest;
  const uint32_t small = bits_of(float_of_bits(bits) + float_of_bits(kRounder)) - kRounder;
  const uint32_t rounded = bits + ((1u << (kShift - 1)) - 1) + ((bits >> kShift) & 1);
  const uint32_t normal = (rounded >> kShift) - (static_cast<uint32_t>(126 + Traits::kLeastExponent)
                                                 << Traits::kMantissaBits);
  const uint32_t code = bits < kLeastNormal ? small : normal;
  const uint32_t sign = (bits_of(value) >> 24) & 0x80;
  return static_cast<uint8_t>(given > kFloatInfinity ? kFp8NaN : code | sign);
}

// The value of a code.
template <Fp8Format kFormat>
FOVEA_ELEMENT float fp8_value(uint8_t code) {
  using Traits = Fp8Traits<kFormat>;
  constexpr int kShift = 23 - Traits::kMantissaBits;
  const uint32_t size = code & 0x7F, sign = static_cast<uint32_t>(code & 0x80) << 24;
  constexpr uint32_t kLargest =
      static_cast<uint32_t>(Traits::kTopExponent - Traits::kLeastExponent + 1)
          << Traits::kMantissaBits |
      (Traits::kIsE4M3 ? 6u : 3u);
  if (size > kLargest)
    return float_of_bits(kFloatInfinity | 1);  // never an infinity: see fp8_scaled
  if (size < (1u << Traits::kMantissaBits)) {
    const float least = power_of_two(Traits::kLeastExponent - Traits::kMantissaBits);
    return float_of_bits(bits_of(static_cast<float>(size) * least) | sign);
  }
  return float_of_bits(
      ((size << kShift) + (static_cast<uint32_t>(126 + Traits::kLeastExponent) << 23)) | sign);
}

}  // namespace fovea::kernels
