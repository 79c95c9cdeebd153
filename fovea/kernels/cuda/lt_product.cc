#include "fovea/kernels/cuda/lt_product.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/StringUtil.h>
#include <cublasLt.h>

#include <map>
#include <mutex>

#include "fovea/core/error.h"

namespace fovea::kernels::cuda {
namespace {

// What libtorch and Transformer Engine give cuBLASLt on this class of GPUs.
constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

cudaDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return CUDA_R_32F;
    case ElementType::kBFloat16:
      return CUDA_R_16BF;
    case ElementType::kFloat16:
      return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

cublasLtEpilogue_t epilogue_of(LtEpilogue epilogue) {
  switch (epilogue) {
    case LtEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case LtEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case LtEpilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;
    case LtEpilogue::kTanhGelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case LtEpilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case LtEpilogue::kBiasAndGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

std::string text_of(const LtCall& call) {
  const auto matrix = [](const LtMatrix& m, bool is_transposed) {
    return c10::str("[", m.rows, ", ", m.columns, is_transposed ? "]^T" : "]");
  };
  return c10::str("cuBLASLt: ", matrix(call.a, call.is_a_transposed), " x ",
                  matrix(call.b, call.is_b_transposed), " of type ", data_type(call.a.type),
                  " to type ", data_type(call.d.type), " with epilogue ",
                  static_cast<int>(epilogue_of(call.epilogue)));
}

void check_status(cublasStatus_t status, const LtCall& call, const char* step) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(c10::str(text_of(call), ": ", step, " gave status ", static_cast<int>(status), " (",
                       cublasLtGetStatusString(status),
                       "); expected success. Report the shape; device.type=cpu goes on without"));
}

// The descriptors of one call. They are made each time, which takes less than a microsecond and no
// memory, because they hold pointers: kept ones would be one thread's alone.
class Descriptors {
 public:
  Descriptors(const LtCall& call, const LtOperands& operands) {
    const bool has_tf32 = call.may_use_tf32 && call.a.type == ElementType::kFloat32;
    check_status(
        cublasLtMatmulDescInit(
            &product, has_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        call, "a descriptor");
    const auto operation = [](bool is_transposed) {
      return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(call, CUBLASLT_MATMUL_DESC_TRANSA, operation(call.is_a_transposed));
    set(call, CUBLASLT_MATMUL_DESC_TRANSB, operation(call.is_b_transposed));
    set(call, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call.epilogue));
    if (operands.bias) {
      set(call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
      set(call, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(call.d.type));
    }
    if (operands.other) {
      set(call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.other);
      set(call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.d.rows);
    }
    layout(call, call.a, a);
    layout(call, call.b, b);
    layout(call, call.d, d);
  }

  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t a, b, d;

 private:
  template <class T>
  void set(const LtCall& call, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_status(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof(T)), call,
                 "an attribute");
  }
  static void layout(const LtCall& call, const LtMatrix& m, cublasLtMatrixLayoutOpaque_t& to) {
    check_status(cublasLtMatrixLayoutInit(&to, data_type(m.type), static_cast<uint64_t>(m.rows),
                                          static_cast<uint64_t>(m.columns), m.rows),
                 call, "a layout");
  }
};

// Bytes that an address is a multiple of, as far as algorithms ask.
uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const uint32_t bytes : {256, 16, 8, 4}) {
    if (address % bytes == 0) return bytes;
  }
  return 2;
}

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

// The algorithm that cuBLASLt takes for the best one of those whose sums have one order: partial
// sums over the inner dim are written beside one another and added up in a second step, or there is
// one sum.
Algorithm find_algorithm(const AlgorithmKey& key, Descriptors& descriptors) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check_status(cublasLtMatmulPreferenceInit(&preference), key.call, "a preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_status(
        cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
        key.call, "a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const auto status = cublasLtMatmulAlgoGetHeuristic(
      at::cuda::getCurrentCUDABlasLtHandle(), &descriptors.product, &descriptors.a, &descriptors.b,
      &descriptors.d, &descriptors.d, &preference, 1, &found, &count);
  if (status == CUBLAS_STATUS_SUCCESS && count > 0 && found.state == CUBLAS_STATUS_SUCCESS) {
    return {.is_there = true, .steps = found.algo, .workspace_bytes = found.workspaceSize};
  }
  TORCH_WARN(text_of(key.call), ": no algorithm, status ", static_cast<int>(status),
             "; the product and what would be done at its end run one by one");
  return {};
}

// Looked up once for a call and the alignments of its operands.
Algorithm algorithm_for(const AlgorithmKey& key, Descriptors& descriptors) {
  static std::mutex mutex;
  static std::map<AlgorithmKey, Algorithm> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace(key);
  if (!is_new) return place->second;
  try {
    place->second = find_algorithm(key, descriptors);
  } catch (...) {
    known.erase(place);
    throw;
  }
  return place->second;
}

}  // namespace

bool run_lt_call(const LtCall& call, const LtOperands& operands) {
  const int device = c10::cuda::current_device();
  const void* c = call.adds_c ? operands.c : operands.d;  // cuBLASLt does not read what it need not
  Descriptors descriptors(call, operands);
  const auto algorithm = algorithm_for({.call = call,
                                        .device = device,
                                        .a = alignment_of(operands.a),
                                        .b = alignment_of(operands.b),
                                        .c = alignment_of(c),
                                        .d = alignment_of(operands.d),
                                        .bias = alignment_of(operands.bias),
                                        .other = alignment_of(operands.other)},
                                       descriptors);
  if (!algorithm.is_there) return false;
  // The stream's own for as long as the product runs, also within the pool of a graph.
  const auto workspace = at::empty({static_cast<int64_t>(algorithm.workspace_bytes)},
                                   at::TensorOptions().dtype(at::kByte).device(at::kCUDA, device));
  const float one = 1.0f, times_c = call.adds_c ? 1.0f : 0.0f;
  check_status(
      cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), &descriptors.product, &one, operands.a,
                     &descriptors.a, operands.b, &descriptors.b, &times_c, c, &descriptors.d,
                     operands.d, &descriptors.d, &algorithm.steps, workspace.mutable_data_ptr(),
                     algorithm.workspace_bytes, c10::cuda::getCurrentCUDAStream()),
      call, "the product");
  return true;
}

}  // namespace fovea::kernels::cuda
