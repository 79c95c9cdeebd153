// Which implementation each operation takes on the CPU: the processor's best, or what FOVEA_KERNELS
// names.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace fovea::kernels {

// Note [Kernel paths]
// A path is a way to compute an operation. Those from kBaseline to kAmx are instruction sets, each
// with those before it: to name one asks for what a processor runs that has no more, and an
// operation that has nothing for just that set takes the next one below. The others are libraries
// of products, and the plain operations of libtorch.
//
// An operation looks at its path once in a call, in one function that gives an enum, and goes on
// with a switch. Paths do not change while a process lives: with them the bits of results would.
enum class KernelPath {
  kReference,   // libtorch's operations one by one
  kBaseline,    // what every x86-64 processor has; other architectures' own
  kAvx2,        // x86-64-v3
  kAvx512,      // x86-64-v4
  kAvx512Bf16,  // with products of bfloat16
  kAmx,         // with tiles of bfloat16
  kOneDnn,
  kMkl,
};

enum class KernelOp {
  kLinear,
  kAttention,  // of q, k and v side by side; elsewhere libtorch's
  kNorm,       // LayerNorm
  kGelu,
  kResidual,  // with LayerScale or drop path
  kLoops,     // sums of rows, AdamW, averages, conversion of bfloat16
};
inline constexpr size_t kNumKernelOps = 6;

// "reference", "baseline", "avx2", "avx512", "avx512_bf16", "amx", "onednn", "mkl".
const char* kernel_path_name(KernelPath path);
// "linear", "attention", "norm", "gelu", "residual", "loops".
const char* kernel_op_name(KernelOp op);
std::vector<KernelOp> kernel_ops();

// What of a machine, and of the libtorch there, decides.
struct KernelMachine {
  KernelPath level = KernelPath::kBaseline;  // the last one of kBaseline to kAmx that it has
  bool is_intel = false;
  bool has_onednn = false, has_mkl = false;
};
KernelMachine this_kernel_machine();

struct ChosenPath {
  KernelPath path = KernelPath::kReference;
  // Of bfloat16: it is turned into float32, which takes `path`, and the result is rounded once.
  bool is_as_float = false;
  bool operator==(const ChosenPath&) const = default;
};

class KernelPaths {
 public:
  // forced: as FOVEA_KERNELS has it, a path for all operations and "op=path" for some, separated by
  // commas; a path for all leaves operations alone that have none such. Throws ConfigError for a
  // name that is unknown, a path that the operation lacks, and one that the machine lacks.
  KernelPaths(const std::string& forced, const KernelMachine& machine);

  // Of float32 or bfloat16.
  const ChosenPath& of(KernelOp op, at::ScalarType dtype) const {
    return chosen_[static_cast<size_t>(op)][dtype == at::kBFloat16];
  }
  // The instruction set that the operation may use: the processor's, or an older one that is named.
  KernelPath level(KernelOp op) const { return levels_[static_cast<size_t>(op)]; }
  bool is_forced(KernelOp op) const { return is_forced_[static_cast<size_t>(op)]; }
  // Whether linear layers multiply bfloat16 in hardware.
  bool multiplies_bfloat16() const { return multiplies_bfloat16_; }

  // "float32 onednn, bfloat16 avx512_bf16", or "float32 avx2, bfloat16 as float32".
  std::string text(KernelOp op) const;

 private:
  std::array<std::array<ChosenPath, 2>, kNumKernelOps> chosen_;
  std::array<KernelPath, kNumKernelOps> levels_{};
  std::array<bool, kNumKernelOps> is_forced_{};
  bool multiplies_bfloat16_ = false;
};

// Of this process: the processor and FOVEA_KERNELS do not change while it lives. Read at the first
// call, which throws ConfigError as the constructor does; from any thread.
const KernelPaths& kernel_paths();

// For the start of a program, before libtorch computes anything: throws what kernel_paths() throws,
// and holds libtorch, oneDNN and MKL to the instruction set that FOVEA_KERNELS names for all
// operations, unless their own variables are set.
void start_kernel_paths();

}  // namespace fovea::kernels
