// Which of cuBLASLt's algorithms a product is made by: the fastest one, measured where it can be,
// and the same one from then on.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/lt_descriptors.h"

namespace fovea::kernels::cuda {

struct AlgorithmKey {
  LtCall call;
  int device;
  uint32_t a, b, c, d, bias, other;  // alignments
  auto operator<=>(const AlgorithmKey&) const = default;
};

struct Algorithm {
  bool is_there = false;
  cublasLtMatmulAlgo_t steps{};
  size_t workspace_bytes = 0;
};

// All that one product is made of, but for how.
struct Product {
  const AlgorithmKey& key;
  const LtOperands& operands;
  const void* c;
  Descriptors& descriptors;

  cublasStatus_t run(const Algorithm& algorithm) const;
};

// Looked up once for a key and, while nothing is recorded, measured; not there: cuBLASLt has none
// whose sums have one order.
Algorithm algorithm_for(const Product& product);

// Of what was offered and then refused: from now on it is not there, and a warning says so.
void leave_out(const AlgorithmKey& key, cublasStatus_t status);

// Whether the current stream is being recorded.
bool is_capturing();

}  // namespace fovea::kernels::cuda
