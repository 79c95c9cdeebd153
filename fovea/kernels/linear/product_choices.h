// Which of cuBLASLt's algorithms is the fastest for a product on a GPU: measured where a shape is
// first met.
#pragma once

#include "fovea/kernels/measured_choices.h"

namespace fovea::kernels {

// The one of this process. An algorithm is written as cuBLASLt has it, 64 bytes in hexadecimal, and
// is for the GPU and the version of cuBLASLt that its name begins with.
ChoiceTable& product_choices();

}  // namespace fovea::kernels
