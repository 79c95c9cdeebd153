// Products of 8-bit integers in ONNX.
#pragma once

#include <optional>
#include <string>

#include "fovea/onnx/translator.h"

namespace fovea::onnx {

// Note [QDQ]
// ONNX has no linear layer of 8-bit integers. It has QuantizeLinear and DequantizeLinear, and a
// product of float32 whose factors both come from the latter is one that ONNX Runtime and OpenVINO
// compute with the codes themselves: inputs of a scale and a zero for the layer, uint8, and weights
// of a scale for each output, int8, a constant. The numbers are those of Note [Int8] of
// kernels/cpu/int8_blocks.h, but that inputs are divided by their scale there, and multiplied with
// its inverse here, of which some come to the next code.

// x W^T of the linear layer that is translated, where it is one of to.int8(); else nothing.
std::optional<std::string> int8_product(Translator& to);

}  // namespace fovea::onnx
