#include "fovea/kernels/kernel_paths.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/nearest.h"
#include "fovea/kernels/cpu/one_mkl_thread.h"
#include "fovea/kernels/cpu/processor.h"
#include "fovea/kernels/cpu/tiles.h"

namespace fovea::kernels {
namespace {

constexpr const char* kVariable = "FOVEA_KERNELS";

constexpr std::array<std::pair<KernelPath, const char*>, 8> kPathNames = {{
    {KernelPath::kReference, "reference"},
    {KernelPath::kBaseline, "baseline"},
    {KernelPath::kAvx2, "avx2"},
    {KernelPath::kAvx512, "avx512"},
    {KernelPath::kAvx512Bf16, "avx512_bf16"},
    {KernelPath::kAmx, "amx"},
    {KernelPath::kOneDnn, "onednn"},
    {KernelPath::kMkl, "mkl"},
}};

constexpr std::array<std::pair<KernelOp, const char*>, kNumKernelOps> kOpNames = {{
    {KernelOp::kLinear, "linear"},
    {KernelOp::kAttention, "attention"},
    {KernelOp::kNorm, "norm"},
    {KernelOp::kGelu, "gelu"},
    {KernelOp::kResidual, "residual"},
    {KernelOp::kLoops, "loops"},
}};

bool is_instruction_set(KernelPath path) {
  return path >= KernelPath::kBaseline && path <= KernelPath::kAmx;
}

bool op_has(KernelOp op, KernelPath path) {
  if (is_instruction_set(path)) return true;
  return path == KernelPath::kReference ? op != KernelOp::kLoops : op == KernelOp::kLinear;
}

// What is said of a machine that lacks the path; null: it has it.
const char* what_lacks(const KernelMachine& machine, KernelPath path) {
  if (is_instruction_set(path) && path > machine.level) return "this processor has no";
  if (path == KernelPath::kOneDnn && !machine.has_onednn) return "this libtorch is built without";
  if (path == KernelPath::kMkl && !machine.has_mkl) return "this libtorch is built without";
  return nullptr;
}

std::vector<std::string> paths_here(const KernelMachine& machine, std::optional<KernelOp> op) {
  std::vector<std::string> names = {"auto"};
  for (const auto& [path, name] : kPathNames) {
    if (!what_lacks(machine, path) && (!op || op_has(*op, path))) names.emplace_back(name);
  }
  return names;
}

// Nothing: "auto".
using WantedPath = std::optional<KernelPath>;
struct WantedPaths {
  std::array<WantedPath, kNumKernelOps> of_op;
  WantedPath of_all;
};

class WantedPathsReader {
 public:
  WantedPathsReader(const std::string& text, const KernelMachine& machine)
      : text_(text), machine_(machine) {}

  WantedPaths read() {
    for (std::string_view rest = text_; !rest.empty();) {
      const auto comma = std::min(rest.find(','), rest.size());
      read_item(std::string(rest.substr(0, comma)));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    WantedPaths wanted{.of_op = {}, .of_all = all_.value_or(WantedPath())};
    for (size_t i = 0; i < kNumKernelOps; ++i) {
      const bool is_for_it = wanted.of_all && op_has(kOpNames[i].first, *wanted.of_all);
      wanted.of_op[i] = given_[i] ? *given_[i] : is_for_it ? wanted.of_all : WantedPath();
    }
    return wanted;
  }

 private:
  void read_item(const std::string& item) {
    const auto equals = item.find('=');
    std::optional<KernelOp> op;
    if (equals != std::string::npos) op = op_of(item.substr(0, equals));
    const auto path = path_of(equals == std::string::npos ? item : item.substr(equals + 1), op);
    auto& given = op ? given_[static_cast<size_t>(*op)] : all_;
    if (given) {
      fail<ConfigError>("{}={}: {} stands there twice; expected one path for {}", kVariable, text_,
                        op ? kernel_op_name(*op) : "a path for all operations",
                        op ? "it" : "all, and op=path for some");
    }
    given = path;
  }

  KernelOp op_of(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [op, known] : kOpNames) {
      if (name == known) return op;
      names.emplace_back(known);
    }
    fail<ConfigError>("{}={}: the operation '{}' is unknown; expected one of {}{}", kVariable,
                      text_, name, fmt::join(names, ", "), or_did_you_mean(name, names));
  }

  WantedPath path_of(const std::string& name, std::optional<KernelOp> op) const {
    if (name == "auto") return {};
    const auto names = paths_here(machine_, op);
    for (const auto& [path, known] : kPathNames) {
      if (name != known) continue;
      if (op && !op_has(*op, path)) {
        fail<ConfigError>("{}={}: {} has no path '{}'; expected one of {}", kVariable, text_,
                          kernel_op_name(*op), name, fmt::join(names, ", "));
      }
      if (const char* lack = what_lacks(machine_, path)) {
        fail<ConfigError>("{}={}: {} {}; expected one of {}, or the variable unset", kVariable,
                          text_, lack, name, fmt::join(names, ", "));
      }
      return path;
    }
    fail<ConfigError>("{}={}: the path '{}' is unknown; expected one of {}{}", kVariable, text_,
                      name, fmt::join(names, ", "), or_did_you_mean(name, names));
  }

  const std::string& text_;
  const KernelMachine& machine_;
  std::array<std::optional<WantedPath>, kNumKernelOps> given_;
  std::optional<WantedPath> all_;
};

// Of products of float32, where `level` is the most that may be used.
KernelPath float_product_path(KernelPath level, const KernelMachine& machine) {
  // On Intel's own processors with AVX-512 a training step by MKL takes 5 to 8 % less; weights that
  // are kept packed are multiplied by our products there, too (product_path.h). On AMD's oneDNN is
  // as fast as they are, and its bits follow from the number of rows.
  if (level < KernelPath::kAvx512) return level;
  return machine.is_intel && machine.has_mkl ? KernelPath::kMkl : KernelPath::kAvx512;
}

// Of float32.
KernelPath float_path(KernelOp op, KernelPath level, const KernelMachine& machine) {
  if (op == KernelOp::kLinear) return float_product_path(level, machine);
  if (op != KernelOp::kGelu) return std::min(level, KernelPath::kAvx512);
  // Ours is the end of a product of our own, and by itself has the same bits.
  return level < KernelPath::kAvx2 ? KernelPath::kReference : std::min(level, KernelPath::kAvx512);
}

// Of bfloat16. Products of float32 are exact for each pair of factors, and the result is rounded
// once: the numbers of bfloat16 hardware, fifty times as fast as libtorch's own way without it.
ChosenPath bfloat16_path(KernelOp op, KernelPath level, const KernelMachine& machine) {
  const auto in_floats = float_path(op, level, machine);
  const bool is_panels = op == KernelOp::kLinear || op == KernelOp::kAttention;
  if (level >= KernelPath::kAvx512Bf16) {
    if (is_panels) return {level};
    if (op == KernelOp::kNorm || op == KernelOp::kGelu) return {KernelPath::kAvx512Bf16};
  }
  if (op == KernelOp::kGelu) return {KernelPath::kReference};
  return {in_floats, /*is_as_float=*/is_panels};
}

std::array<ChosenPath, 2> choose(KernelOp op, WantedPath wanted, const KernelMachine& machine) {
  if (wanted == KernelPath::kReference) return {ChosenPath{*wanted}, ChosenPath{*wanted}};
  if (wanted && !is_instruction_set(*wanted)) {
    const bool multiplies =
        wanted == KernelPath::kOneDnn && machine.level >= KernelPath::kAvx512Bf16;
    return {ChosenPath{*wanted}, ChosenPath{*wanted, /*is_as_float=*/!multiplies}};
  }
  const auto level = wanted.value_or(machine.level);
  return {ChosenPath{float_path(op, level, machine)}, bfloat16_path(op, level, machine)};
}

std::string forced_text() {
  const char* value = std::getenv(kVariable);
  return value ? value : "";
}

KernelPath level_of_processor() {
  if (cpu::has_amx()) return KernelPath::kAmx;
  if (cpu::has_avx512_bfloat16()) return KernelPath::kAvx512Bf16;
  if (cpu::has_avx512()) return KernelPath::kAvx512;
  return cpu::has_avx2() ? KernelPath::kAvx2 : KernelPath::kBaseline;
}

}  // namespace

const char* kernel_path_name(KernelPath path) {
  return kPathNames[static_cast<size_t>(path)].second;
}

const char* kernel_op_name(KernelOp op) { return kOpNames[static_cast<size_t>(op)].second; }

std::vector<KernelOp> kernel_ops() {
  std::vector<KernelOp> ops;
  for (const auto& [op, name] : kOpNames) ops.push_back(op);
  return ops;
}

KernelMachine this_kernel_machine() {
  return {.level = level_of_processor(),
          .is_intel = cpu::is_intel(),
          .has_onednn = at::Context::hasMKLDNN(),
          .has_mkl = cpu::set_mkl_threads != nullptr};
}

KernelPaths::KernelPaths(const std::string& forced, const KernelMachine& machine) {
  const auto wanted = WantedPathsReader(forced, machine).read();
  for (size_t i = 0; i < kNumKernelOps; ++i) {
    chosen_[i] = choose(kOpNames[i].first, wanted.of_op[i], machine);
    const bool is_level = wanted.of_op[i] && is_instruction_set(*wanted.of_op[i]);
    levels_[i] = is_level ? *wanted.of_op[i] : machine.level;
    is_forced_[i] = wanted.of_op[i].has_value();
  }
  multiplies_bfloat16_ =
      machine.level >= KernelPath::kAvx512Bf16 && !of(KernelOp::kLinear, at::kBFloat16).is_as_float;
}

std::string KernelPaths::text(KernelOp op) const {
  const auto& floats = of(op, at::kFloat);
  const auto& bfloat16 = of(op, at::kBFloat16);
  const auto* name = kernel_path_name(bfloat16.path);
  return fmt::format("float32 {}, bfloat16 {}", kernel_path_name(floats.path),
                     bfloat16.is_as_float ? "as float32" : name);
}

const KernelPaths& kernel_paths() {
  static const KernelPaths paths(forced_text(), this_kernel_machine());
  return paths;
}

void start_kernel_paths() {
  kernel_paths();
  struct Limits {
    KernelPath path;
    const char *libtorch, *onednn, *mkl;
  };
  constexpr std::array<Limits, 4> kLimits = {{
      {KernelPath::kBaseline, "default", "SSE41", "SSE4_2"},
      {KernelPath::kAvx2, "avx2", "AVX2", "AVX2"},
      {KernelPath::kAvx512, "avx512", "AVX512_CORE", "AVX512"},
      {KernelPath::kAvx512Bf16, "avx512", "AVX512_CORE_BF16", "AVX512"},
  }};
  const auto text = forced_text();
  const auto of_all = WantedPathsReader(text, this_kernel_machine()).read().of_all;
  for (const auto& limits : kLimits) {
    if (of_all != limits.path) continue;
    setenv("ATEN_CPU_CAPABILITY", limits.libtorch, /*overwrite=*/0);
    setenv("ONEDNN_MAX_CPU_ISA", limits.onednn, /*overwrite=*/0);
    setenv("MKL_ENABLE_INSTRUCTIONS", limits.mkl, /*overwrite=*/0);
  }
}

}  // namespace fovea::kernels
