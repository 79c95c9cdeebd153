// Which path each operation takes, on any machine; that the one chosen is the one that runs; and
// the contracts of the operations again on each path that this machine has.
#include "fovea/kernels/kernel_paths.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/cpu/int8_blocks.h"
#include "fovea/kernels/elementwise/norm.h"
#include "fovea/kernels/linear/matrix_products.h"
#include "fovea/kernels/linear/product_path.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/operations.h"

extern char** environ;

namespace fovea {
namespace {

using kernels::ChosenPath;
using kernels::KernelMachine;
using kernels::KernelOp;
using kernels::KernelPath;
using kernels::KernelPaths;
using support::random;
using testing::HasSubstr;

const KernelMachine kHaswell{KernelPath::kAvx2, true, true, true};
const KernelMachine kCascadeLake{KernelPath::kAvx512, true, true, true};
const KernelMachine kSapphireRapids{KernelPath::kAmx, true, true, true};
const KernelMachine kZen4{KernelPath::kAvx512Bf16, false, true, true};
const KernelMachine kOther{KernelPath::kBaseline, false, true, false};

ChosenPath linear_on(const KernelMachine& machine, at::ScalarType dtype,
                     const std::string& forced = "") {
  return KernelPaths(forced, machine).of(KernelOp::kLinear, dtype);
}

TEST(KernelPathsTest, ProductsTakeWhatIsFastestOnTheProcessor) {
  EXPECT_EQ(linear_on(kOther, at::kFloat), ChosenPath{KernelPath::kBaseline});
  EXPECT_EQ(linear_on(kHaswell, at::kFloat), ChosenPath{KernelPath::kAvx2});
  EXPECT_EQ(linear_on(kCascadeLake, at::kFloat), ChosenPath{KernelPath::kMkl});
  EXPECT_EQ(linear_on(kSapphireRapids, at::kFloat), ChosenPath{KernelPath::kMkl});
  EXPECT_EQ(linear_on(kZen4, at::kFloat), ChosenPath{KernelPath::kAvx512});
  EXPECT_EQ(linear_on(kHaswell, at::kBFloat16), (ChosenPath{KernelPath::kAvx2, true}));
  EXPECT_EQ(linear_on(kCascadeLake, at::kBFloat16), (ChosenPath{KernelPath::kMkl, true}));
  EXPECT_EQ(linear_on(kSapphireRapids, at::kBFloat16), ChosenPath{KernelPath::kAmx});
  EXPECT_EQ(linear_on(kZen4, at::kBFloat16), ChosenPath{KernelPath::kAvx512Bf16});
  EXPECT_TRUE(KernelPaths("", kZen4).multiplies_bfloat16());
  EXPECT_FALSE(KernelPaths("", kCascadeLake).multiplies_bfloat16());
}

TEST(KernelPathsTest, GeluOfFloatsIsOursWhereThereIsAvx2) {
  const auto gelu_on = [](const KernelMachine& machine) {
    return KernelPaths("", machine).of(KernelOp::kGelu, at::kFloat);
  };
  EXPECT_EQ(gelu_on(kHaswell), ChosenPath{KernelPath::kAvx2});
  EXPECT_EQ(gelu_on(kZen4), ChosenPath{KernelPath::kAvx512});
  EXPECT_EQ(gelu_on(kCascadeLake), ChosenPath{KernelPath::kAvx512});
}

// An instruction set is a processor that has no more.
TEST(KernelPathsTest, AForcedInstructionSetIsThatOfAnOlderProcessor) {
  for (const auto op : kernels::kernel_ops()) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(kernels::kernel_op_name(op));
      EXPECT_EQ(KernelPaths("avx2", kSapphireRapids).of(op, dtype),
                KernelPaths("", kHaswell).of(op, dtype));
      EXPECT_EQ(KernelPaths("avx512", kSapphireRapids).of(op, dtype),
                KernelPaths("", kCascadeLake).of(op, dtype));
      EXPECT_EQ(KernelPaths("amx", kSapphireRapids).of(op, dtype),
                KernelPaths("", kSapphireRapids).of(op, dtype));
    }
  }
  EXPECT_FALSE(KernelPaths("avx512", kZen4).multiplies_bfloat16());
}

// What products of 8-bit integers choose their form by.
TEST(KernelPathsTest, ALevelIsTheProcessorsOrAnOlderOne) {
  EXPECT_EQ(KernelPaths("", kZen4).level(KernelOp::kLinear), KernelPath::kAvx512Bf16);
  EXPECT_EQ(KernelPaths("avx2", kZen4).level(KernelOp::kLinear), KernelPath::kAvx2);
  EXPECT_EQ(KernelPaths("linear=baseline", kZen4).level(KernelOp::kLinear), KernelPath::kBaseline);
  EXPECT_EQ(KernelPaths("linear=baseline", kZen4).level(KernelOp::kNorm), KernelPath::kAvx512Bf16);
  EXPECT_EQ(KernelPaths("mkl", kZen4).level(KernelOp::kLinear), KernelPath::kAvx512Bf16);
  EXPECT_EQ(kernels::cpu::best_int8_form(KernelPath::kBaseline), kernels::cpu::Int8Form::kPairs);
  const auto best = kernels::cpu::best_int8_form(KernelPath::kAmx);
  EXPECT_EQ(best, kernels::cpu::int8_forms_here().back());
}

TEST(KernelPathsTest, ALibraryIsForcedForProductsAlone) {
  EXPECT_EQ(linear_on(kZen4, at::kFloat, "mkl"), ChosenPath{KernelPath::kMkl});
  EXPECT_EQ(linear_on(kZen4, at::kBFloat16, "mkl"), (ChosenPath{KernelPath::kMkl, true}));
  EXPECT_EQ(linear_on(kZen4, at::kBFloat16, "onednn"), ChosenPath{KernelPath::kOneDnn});
  EXPECT_EQ(linear_on(kHaswell, at::kBFloat16, "onednn"), (ChosenPath{KernelPath::kOneDnn, true}));
  const KernelPaths paths("mkl", kZen4);
  EXPECT_TRUE(paths.is_forced(KernelOp::kLinear));
  EXPECT_FALSE(paths.is_forced(KernelOp::kNorm));
  EXPECT_EQ(paths.of(KernelOp::kNorm, at::kFloat), ChosenPath{KernelPath::kAvx512});
}

TEST(KernelPathsTest, AnOperationHasTheLastWordOverAll) {
  const KernelPaths paths("reference,linear=mkl,norm=auto", kZen4);
  EXPECT_EQ(paths.text(KernelOp::kLinear), "float32 mkl, bfloat16 as float32");
  EXPECT_EQ(paths.text(KernelOp::kAttention), "float32 reference, bfloat16 reference");
  EXPECT_EQ(paths.text(KernelOp::kNorm), "float32 avx512, bfloat16 avx512_bf16");
  EXPECT_EQ(paths.text(KernelOp::kLoops), "float32 avx512, bfloat16 avx512");
  EXPECT_FALSE(paths.is_forced(KernelOp::kNorm));
  EXPECT_FALSE(paths.is_forced(KernelOp::kLoops));
}

std::string error_of(const std::string& forced, const KernelMachine& machine) {
  try {
    const KernelPaths paths(forced, machine);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(KernelPathsTest, WhatIsNotThereIsRefused) {
  EXPECT_EQ(error_of("amx", kZen4),
            "FOVEA_KERNELS=amx: this processor has no amx; expected one of auto, "
            "reference, baseline, avx2, avx512, avx512_bf16, onednn, mkl, or the variable unset");
  EXPECT_THAT(error_of("linear=mkl", kOther),
              HasSubstr("this libtorch is built without mkl; expected"));
  EXPECT_THAT(error_of("avx_2", kZen4), HasSubstr("the path 'avx_2' is unknown; expected one of "));
  EXPECT_THAT(error_of("avx_2", kZen4), HasSubstr("did you mean avx2?"));
  EXPECT_THAT(error_of("conv=avx2", kZen4),
              HasSubstr("the operation 'conv' is unknown; expected one of linear, attention, "));
  EXPECT_THAT(error_of("norm=mkl", kZen4),
              HasSubstr("norm has no path 'mkl'; expected one of auto, reference, baseline"));
  EXPECT_THAT(error_of("loops=reference", kZen4), HasSubstr("loops has no path 'reference'"));
  EXPECT_THAT(error_of("norm=avx2,norm=avx512", kZen4), HasSubstr("norm stands there twice"));
  EXPECT_THAT(error_of("avx2,avx512", kZen4), HasSubstr("a path for all operations stands there"));
  EXPECT_THAT(error_of("linear=", kZen4), HasSubstr("the path '' is unknown"));
  EXPECT_THAT(error_of("avx2,,", kZen4), HasSubstr("the path '' is unknown"));
}

constexpr const char* kOneDnnProduct = "mkldnn::_linear_pointwise";

// Products of 640 rows: MKL's parts have 192 rows at least, and BLAS is given eight blocks.
void expect_product_runs_on(KernelPath path, const support::Operations& ran) {
  const int parts = ran.of("aten::addmm") + ran.of("aten::mm");
  switch (path) {
    case KernelPath::kReference:
      EXPECT_GT(ran.of("aten::linear"), 0);
      return;
    case KernelPath::kBaseline:
      EXPECT_EQ(parts, 8);
      EXPECT_EQ(ran.of(kOneDnnProduct), 0);
      return;
    case KernelPath::kMkl:
      EXPECT_GT(parts, 0);
      EXPECT_LE(parts, 3);
      return;
    case KernelPath::kOneDnn:
      EXPECT_GT(ran.of(kOneDnnProduct), 0);
      EXPECT_EQ(parts, 0);
      return;
    case KernelPath::kAvx2:
    case KernelPath::kAvx512:
    case KernelPath::kAvx512Bf16:
    case KernelPath::kAmx:
      EXPECT_EQ(ran.of(kOneDnnProduct) + ran.of("aten::linear") + parts, 0);
      return;
  }
}

TEST(KernelPathsTest, TheChosenPathOfProductsRuns) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto x = random({640, 256}, dtype, 1), weight = random({384, 256}, dtype, 2);
    const auto chosen = kernels::kernel_paths().of(KernelOp::kLinear, dtype);
    SCOPED_TRACE(kernels::kernel_paths().text(KernelOp::kLinear));
    const support::Operations ran;
    kernels::product(x, weight, {});
    if (dtype == at::kBFloat16 && chosen.path == KernelPath::kOneDnn && !chosen.is_as_float) {
      EXPECT_GT(ran.of("aten::linear"), 0);  // which asks oneDNN
    } else {
      expect_product_runs_on(chosen.path, ran);
    }
    EXPECT_EQ(ran.of("aten::_to_copy") > 0, chosen.is_as_float);
  }
}

TEST(KernelPathsTest, TheChosenPathOfNormsAndAttentionRuns) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto path = [&](KernelOp op) { return kernels::kernel_paths().of(op, dtype).path; };
    const auto rows = random({4, 32}, dtype, 1), qkv = random({2, 5, 96}, dtype, 2);
    const support::Operations ran;
    kernels::layer_norm(rows, {}, {}, 1e-5);
    kernels::self_attention(qkv, 2, 0.25);
    EXPECT_EQ(ran.of("fovea::self_attention") == 0,
              path(KernelOp::kAttention) == KernelPath::kReference);
    EXPECT_EQ(ran.of("aten::softmax") > 0, path(KernelOp::kAttention) == KernelPath::kReference);
    EXPECT_EQ(ran.of("aten::native_layer_norm") > 0,
              path(KernelOp::kNorm) == KernelPath::kReference);
  }
}

TEST(KernelPathsTest, TheChosenPathOfSelfAttentionMatchesFloat64) {
  constexpr int64_t kHeads = 2, kTokens = 65, kHeadDim = 40;
  constexpr double kScale = 0.2;
  const auto own = [](const std::vector<at::Tensor>& in) {
    return kernels::self_attention(in[0], kHeads, kScale);
  };
  const auto by_definition = [](const std::vector<at::Tensor>& in) {
    const auto parts = in[0].unflatten(-1, {3, kHeads, -1}).permute({2, 0, 3, 1, 4});
    return reference::attention(parts[0], parts[1], parts[2], kScale).transpose(1, 2).flatten(2);
  };
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto qkv = random({1, kTokens, 3 * kHeads * kHeadDim}, dtype, 1);
    support::expect_matches_reference(own, by_definition, {qkv}, dtype);
  }
}

// The cheap tests of this program in a process of its own, with FOVEA_KERNELS=forced -> its exit
// code.
int run_tests_with(const std::string& forced, const std::string& filter) {
  const std::string filter_word = "--gtest_filter=" + filter;
  std::vector<std::string> words = {"/proc/self/exe", "--gtest_brief=1", filter_word};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  setenv("FOVEA_KERNELS", forced.c_str(), /*overwrite=*/1);
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/1);  // small tensors
  pid_t child = 0;
  const int error =
      posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ);
  unsetenv("FOVEA_KERNELS");
  unsetenv("OMP_NUM_THREADS");
  int status = -1;
  if (error == 0) waitpid(child, &status, 0);
  return error == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether it changes anything here.
bool is_another_choice(const std::string& forced, const KernelMachine& machine) {
  const KernelPaths usual("", machine), paths(forced, machine);
  const auto ops = kernels::kernel_ops();
  return std::any_of(ops.begin(), ops.end(), [&](KernelOp op) {
    return paths.of(op, at::kFloat) != usual.of(op, at::kFloat) ||
           paths.of(op, at::kBFloat16) != usual.of(op, at::kBFloat16);
  });
}

TEST(KernelPathsTest, EachPathOfThisMachineHoldsTheContracts) {
  if (std::getenv("FOVEA_KERNELS")) GTEST_SKIP() << "skipped: one path is forced already";
  const std::string cheap =
      "*KernelPathsTest.TheChosen*:*/LinearTest.Matches*:*/LinearTest.Widths*:"
      "*/LinearTest.*NonCont*:*/LinearTest.*Residual*:*BatchedProduct*Matches*:"
      "*/NormTest.MatchesReferenceForAny*:*ActivationTest.GeluOfEvery*:ResidualTest.Matches*:"
      "ReduceTest.SumOfRowsMatches*:Int8ProductTest.LinearTakes*:"
      "SavedActivationTest.Gradients*:SplitProductsTest.SixProducts*";
  // Libtorch sums the gradient of a norm's weight in the dtype of the weight.
  const std::string not_of_plain = "-*/NormTest*/BFloat16ByBFloat16";
  const auto machine = kernels::this_kernel_machine();
  std::vector<std::string> absent;
  for (const std::string path :
       {"reference", "baseline", "avx2", "avx512", "avx512_bf16", "amx", "onednn", "mkl"}) {
    SCOPED_TRACE(path);
    if (!error_of(path, machine).empty()) {
      absent.push_back(path);
    } else if (is_another_choice(path, machine)) {
      EXPECT_EQ(run_tests_with(path, path == "reference" ? cheap + not_of_plain : cheap), 0);
    }
  }
  if (!absent.empty()) fmt::print("not on this machine: {}\n", fmt::join(absent, ", "));
}

}  // namespace
}  // namespace fovea
