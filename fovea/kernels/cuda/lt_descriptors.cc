#include "fovea/kernels/cuda/lt_descriptors.h"

#include <c10/util/StringUtil.h>

#include "fovea/core/error.h"

namespace fovea::kernels::cuda {

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

namespace {

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

template <class T>
void set(LtProductDescriptor& product, const LtCall& call, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  check_status(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof(T)), call,
               "an attribute");
}

void layout(const LtCall& call, const LtMatrix& m, LtLayout& to) {
  check_status(
      to.init(data_type(m.type), static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.columns)),
      call, "a layout");
}

}  // namespace

std::string text_of(const LtCall& call) {
  const auto matrix = [](const LtMatrix& m, bool is_transposed) {
    return c10::str("[", m.rows, ", ", m.columns, is_transposed ? "]^T" : "]");
  };
  return c10::str(kLtName, ": ", matrix(call.a, call.is_a_transposed), " x ",
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

Descriptors::Descriptors(const LtCall& call, const LtOperands& operands) {
  const bool has_tf32 = call.may_use_tf32 && call.a.type == ElementType::kFloat32;
  check_status(
      product.init(has_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F), call,
      "a descriptor");
  const auto operation = [](bool is_transposed) {
    return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(product, call, CUBLASLT_MATMUL_DESC_TRANSA, operation(call.is_a_transposed));
  set(product, call, CUBLASLT_MATMUL_DESC_TRANSB, operation(call.is_b_transposed));
  set(product, call, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call.epilogue));
  if (operands.bias) {
    set(product, call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    set(product, call, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(call.d.type));
  }
  if (operands.other) {
    set(product, call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.other);
    set(product, call, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.d.rows);
  }
  layout(call, call.a, a);
  layout(call, call.b, b);
  layout(call, call.d, d);
}

}  // namespace fovea::kernels::cuda
