#include "fovea/kernels/cuda/lt_algorithm.h"

#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/kernels/cuda/module.h"
#include "fovea/kernels/cuda/runtime.h"
#include "fovea/kernels/cuda/torch_gpu.h"

namespace fovea::kernels::cuda {
namespace {

// What libtorch and Transformer Engine give cuBLASLt on this class of GPUs.
constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;
constexpr int kMaxCandidates = 16;
constexpr const char* kOneByOne = "; the product and what would be done at its end run one by one";

at::ScalarType type_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return at::kFloat;
    case ElementType::kBFloat16:
      return at::kBFloat16;
    case ElementType::kFloat16:
      return at::kHalf;
  }
  return at::kFloat;
}

// Those whose sums have one order, the best one first as cuBLASLt guesses: partial sums over the
// inner dim are written beside one another and added up in a second step, or there is one sum.
std::vector<Algorithm> candidates_for(const Product& product) {
  const auto& key = product.key;
  LtPreference preference;
  check_status(preference.init(), key.call, "a preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_status(
        cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
        key.call, "a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes);
#if !FOVEA_HIP  // hipBLASLt has neither of these
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d);
#endif
  std::array<cublasLtMatmulHeuristicResult_t, kMaxCandidates> found{};
  int count = 0;
  auto& d = product.descriptors;
  const auto status = cublasLtMatmulAlgoGetHeuristic(
      at::cuda::getCurrentCUDABlasLtHandle(), d.product.get(), d.a.get(), d.b.get(), d.d.get(),
      d.d.get(), preference.get(), kMaxCandidates, found.data(), &count);
  std::vector<Algorithm> candidates;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
    candidates.push_back({true, found[i].algo, found[i].workspaceSize});
  }
  if (candidates.empty()) {
    TORCH_WARN(text_of(key.call), ": no algorithm, status ", static_cast<int>(status), kOneByOne);
  }
  return candidates;
}

// Seconds of the device for a product by each candidate, the least of some rounds of all of them;
// infinity for one that is refused. What the product writes is written many times.
std::vector<double> times_of(const Product& product, const std::vector<Algorithm>& candidates) {
  constexpr int kRounds = 3, kCalls = 4;
  std::vector<double> seconds(candidates.size(), std::numeric_limits<double>::infinity());
  const auto stream = c10::cuda::getCurrentCUDAStream();
  for (int round = 0; round <= kRounds; ++round) {  // the first one warms up
    for (size_t i = 0; i < candidates.size(); ++i) {
      at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
      bool is_taken = true;
      begin.record(stream);
      for (int call = 0; call < kCalls && is_taken; ++call) {
        is_taken = product.run(candidates[i]) == CUBLAS_STATUS_SUCCESS;
      }
      end.record(stream);
      end.synchronize();
      if (is_taken && round > 0) {
        seconds[i] = std::min(seconds[i], 1e-3 * begin.elapsed_time(end) / kCalls);
      }
    }
  }
  return seconds;
}

// The times of a product that adds to d itself are those of one that adds to memory of our own:
// each of the calls that are measured would add to the sum.
std::vector<double> times_beside(const Product& product, const std::vector<Algorithm>& candidates) {
  const auto& [key, operands, c, descriptors] = product;
  if (!key.call.adds_c || c != operands.d) return times_of(product, candidates);
  const auto sum = at::empty({key.call.d.columns, key.call.d.rows},
                             at::TensorOptions()
                                 .dtype(type_of(key.call.d.type))
                                 .device(at::kCUDA, static_cast<c10::DeviceIndex>(key.device)));
  auto beside = operands;
  beside.d = sum.mutable_data_ptr();
  return times_of({key, beside, beside.d, descriptors}, candidates);
}

std::string hex_of(const cublasLtMatmulAlgo_t& steps) {
  std::string text;
  for (const auto byte : bytes_of(steps)) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

// What hex_of() wrote, if cuBLASLt still takes it for the product.
Algorithm algorithm_of(const std::string& hex, const Product& product) {
  AlgorithmBytes bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  Algorithm algorithm;
  const auto handle = at::cuda::getCurrentCUDABlasLtHandle();
  if (find_steps(bytes, handle, algorithm.steps) != CUBLAS_STATUS_SUCCESS) return algorithm;
  cublasLtMatmulHeuristicResult_t checked{};
  auto& d = product.descriptors;
  const auto status = cublasLtMatmulAlgoCheck(handle, d.product.get(), d.a.get(), d.b.get(),
                                              d.d.get(), d.d.get(), &algorithm.steps, &checked);
  algorithm.is_there =
      status == CUBLAS_STATUS_SUCCESS && checked.workspaceSize <= kMaxWorkspaceBytes;
  algorithm.workspace_bytes = checked.workspaceSize;
  return algorithm;
}

// Of the GPU, of cuBLASLt and of the product: for what a choice is one.
std::string name_of(const AlgorithmKey& key) {
  return c10::str(at::cuda::getDeviceProperties(key.device)->name, ", ",
                  version_of(at::cuda::getCurrentCUDABlasLtHandle()), ": ", text_of(key.call),
                  key.call.adds_c ? " plus a matrix" : "", key.call.may_use_tf32 ? ", TF32" : "",
                  ", aligned ", key.a, " ", key.b, " ", key.c, " ", key.d, " ", key.bias, " ",
                  key.other);
}

// What cuBLASLt has for each call and the alignments of its operands.
class KnownAlgorithms {
 public:
  void use(MeasuredChoices* choices) { choices_ = choices; }

  // Looked up once; while nothing is recorded measured as well.
  Algorithm of(const Product& product) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(product.key);
    if (known != known_.end()) return known->second;
    const auto found = find(product);
    // What a recording could not measure is to be measured later.
    if (!is_capturing() || !found.is_there) known_[product.key] = found;
    return found;
  }

  // Of what was offered and then refused.
  void leave_out(const AlgorithmKey& key, cublasStatus_t status) {
    const std::lock_guard lock(mutex_);
    known_[key] = {};
    TORCH_WARN(text_of(key.call), ": the algorithm that was offered is refused, status ",
               static_cast<int>(status), kOneByOne);
  }

 private:
  Algorithm find(const Product& product) const {
    const auto name = name_of(product.key);
    if (const auto chosen = choices_ ? choices_->find(name) : std::nullopt) {
      const auto algorithm = algorithm_of(*chosen, product);
      if (algorithm.is_there) return algorithm;
    }
    const auto candidates = candidates_for(product);
    if (candidates.empty()) return {};
    if (!choices_ || is_capturing()) return candidates.front();
    return measured(name, product, candidates);
  }

  // cuBLASLt's own choice, unless another one is clearly faster.
  Algorithm measured(const std::string& name, const Product& product,
                     const std::vector<Algorithm>& candidates) const {
    constexpr double kClearly = 0.98;
    const auto seconds = times_beside(product, candidates);
    size_t best = 0;
    for (size_t i = 1; i < candidates.size(); ++i) {
      if (seconds[i] < kClearly * seconds[0] && seconds[i] < seconds[best]) best = i;
    }
    const auto kept = choices_->keep(name, hex_of(candidates[best].steps));
    const auto algorithm = algorithm_of(kept, product);
    return algorithm.is_there ? algorithm : candidates.front();
  }

  MeasuredChoices* choices_ = nullptr;
  std::mutex mutex_;
  std::map<AlgorithmKey, Algorithm> known_;
};

KnownAlgorithms& known_algorithms() {
  static KnownAlgorithms known;
  return known;
}

}  // namespace

cublasStatus_t Product::run(const Algorithm& algorithm) const {
  // The stream's own for as long as the product runs, also within the pool of a graph.
  const auto workspace =
      at::empty({static_cast<int64_t>(algorithm.workspace_bytes)},
                at::TensorOptions().dtype(at::kByte).device(at::kCUDA, key.device));
  const float one = 1.0f, times_c = key.call.adds_c ? 1.0f : 0.0f;
  auto& [product, a, b, d] = descriptors;
  return cublasLtMatmul(at::cuda::getCurrentCUDABlasLtHandle(), product.get(), &one, operands.a,
                        a.get(), operands.b, b.get(), &times_c, c, d.get(), operands.d, d.get(),
                        &algorithm.steps, workspace.mutable_data_ptr(), algorithm.workspace_bytes,
                        c10::cuda::getCurrentCUDAStream());
}

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

Algorithm algorithm_for(const Product& product) { return known_algorithms().of(product); }

void leave_out(const AlgorithmKey& key, cublasStatus_t status) {
  known_algorithms().leave_out(key, status);
}

}  // namespace fovea::kernels::cuda

void fovea_use_product_choices(fovea::kernels::MeasuredChoices* choices) {
  fovea::kernels::cuda::known_algorithms().use(choices);
}
