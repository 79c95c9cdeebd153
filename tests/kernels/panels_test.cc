// The kernels on panels by themselves; through linear and self_attention their own tests see them.
#include "fovea/kernels/cpu/panels.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/panel_attention_head.h"
#include "fovea/kernels/cpu/panel_product.h"
#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "tests/support/close.h"
#include "tests/support/stored_factor.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using kernels::bits_of;
using kernels::mutable_bits_of;
using kernels::cpu::best_panel_unit;
using kernels::cpu::Factor;
using support::random;

class PanelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cpu::has_panel_products()) GTEST_SKIP() << "skipped: no AVX-512 BF16";
  }
};

struct Sizes {
  int64_t rows, columns, depth;
};
// Of one block and of several, of one stretch of depth and of several, whole and not.
const std::vector<Sizes> kSizes = {{1, 1, 1},      {32, 32, 32},   {33, 47, 65},
                                   {300, 31, 513}, {70, 1000, 64}, {65, 130, 1100}};

// Deep as whole steps, one stretch and several; rows by eights and not, in one run and several; few
// rows and a second factor that is shared out by its panels, deep and not.
const std::vector<Sizes> kSizesOfRows = {{8, 40, 32},     {33, 32, 64},     {300, 20, 512},
                                         {600, 70, 96},   {100, 130, 1088}, {70, 520, 1024},
                                         {197, 270, 2048}};

// Of bfloat16.
struct StoredFactor : support::StoredFactor {
  StoredFactor(const at::Tensor& values, bool is_transposed, int64_t behind = 3)
      : support::StoredFactor(values, is_transposed, behind),
        factor{mutable_bits_of(whole) + 2, stride(), is_transposed} {}
  Factor factor;
};

class PanelProductTest : public PanelsTest {
 protected:
  // Calls check(first, second, product in float64) for all sizes and layouts.
  template <class Check>
  static void for_each_case(const Check& check) {
    for (const auto& sizes : kSizes) {
      const auto a = random({sizes.rows, sizes.depth}, at::kBFloat16, 1);
      const auto b = random({sizes.depth, sizes.columns}, at::kBFloat16, 2);
      const auto expected = a.to(at::kDouble).matmul(b.to(at::kDouble));
      for (const bool first : {false, true}) {
        for (const bool second : {false, true}) {
          SCOPED_TRACE(fmt::format("{} x {} x {}, transposed: {}, {}", sizes.rows, sizes.columns,
                                   sizes.depth, first, second));
          check(StoredFactor(a, first), StoredFactor(b, second), sizes, expected);
        }
      }
    }
  }
};

TEST_F(PanelProductTest, FloatResultsMatchFloat64) {
  for_each_case(
      [](const StoredFactor& a, const StoredFactor& b, const Sizes& s, const at::Tensor& expected) {
        for (const bool is_transposed : {false, true}) {
          // A column more than is written, to see that it is not.
          const auto shape = is_transposed ? expected.t() : expected;
          const auto out = at::full({shape.size(0), shape.size(1) + 1}, 77, at::kFloat);
          const auto sums = at::full({s.rows + 1}, 77, at::kFloat);
          panel_product(best_panel_unit(), a.factor, {b.factor}, {s.rows, s.columns, s.depth},
                        kernels::cpu::FloatResult{.data = out.mutable_data_ptr<float>(),
                                                  .stride = out.size(1),
                                                  .is_transposed = is_transposed,
                                                  .row_sums = sums.mutable_data_ptr<float>()});
          support::expect_close(sums.narrow(0, 0, s.rows), a.values.to(at::kDouble).sum(1),
                                at::kFloat, "sums of rows");
          EXPECT_EQ(sums[-1].item<float>(), 77);
          support::expect_close(out.narrow(1, 0, shape.size(1)), shape, at::kFloat, "product");
          EXPECT_TRUE(out.select(1, -1).eq(77).all().item<bool>());
        }
      });
}

TEST_F(PanelProductTest, Bfloat16ResultsAreThoseOfFloat64Rounded) {
  for_each_case([](const StoredFactor& a, const StoredFactor& b, const Sizes& s,
                   const at::Tensor& expected) {
    const auto bias = random({s.columns}, at::kFloat, 3);
    for (const bool has_bias : {false, true}) {
      const auto out = at::full({s.rows, s.columns + 1}, 77, at::kBFloat16);
      panel_product(
          best_panel_unit(), a.factor, {b.factor}, {s.rows, s.columns, s.depth},
          kernels::cpu::Bfloat16Result{.data = mutable_bits_of(out),
                                       .stride = out.size(1),
                                       .bias = has_bias ? bias.const_data_ptr<float>() : nullptr});
      support::expect_close(out.narrow(1, 0, s.columns).to(at::kDouble),
                            has_bias ? expected + bias : expected, at::kBFloat16, "product");
      EXPECT_TRUE(out.select(1, -1).eq(77).all().item<bool>());
    }
  });
}

// Beside what it is of, and in its place; past the caches, and not.
TEST_F(PanelProductTest, GeluIsThatOfTheRoundedProduct) {
  for (const auto& s : {Sizes{33, 47, 65}, Sizes{100, 64, 32}, Sizes{1100, 512, 32}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.rows, s.columns, s.depth));
    const auto a = random({s.rows, s.depth}, at::kBFloat16, 1),
               b = random({s.depth, s.columns}, at::kBFloat16, 2);
    const auto bias = random({s.columns}, at::kFloat, 3);
    const auto multiply = [&](const at::Tensor& out, const at::Tensor& gelu) {
      panel_product(
          best_panel_unit(), {bits_of(a), s.depth}, {{bits_of(b), s.columns}},
          {s.rows, s.columns, s.depth},
          kernels::cpu::Bfloat16Result{.data = mutable_bits_of(out),
                                       .stride = s.columns,
                                       .bias = bias.const_data_ptr<float>(),
                                       .gelu = gelu.defined() ? mutable_bits_of(gelu) : nullptr});
    };
    const auto expected = at::empty({s.rows, s.columns}, at::kBFloat16);
    const auto product = at::empty_like(expected), gelu = at::empty_like(expected),
               in_place = at::empty_like(expected);
    multiply(expected, {});
    multiply(product, gelu);
    multiply(in_place, in_place);
    support::expect_same_bits(product, expected, "product");
    support::expect_same_bits(gelu, kernels::activate(expected, kernels::Activation::kGelu),
                              "gelu");
    support::expect_same_bits(in_place, gelu, "in place");
  }
}

TEST_F(PanelProductTest, PanelsThatArePackedBeforeGiveTheSameBits) {
  for_each_case(
      [](const StoredFactor& a, const StoredFactor& b, const Sizes& s, const at::Tensor&) {
        const auto packed =
            at::empty({kernels::cpu::packed_panels_size(s.depth, s.columns)}, at::kBFloat16);
        pack_panels(b.factor, s.depth, s.columns, mutable_bits_of(packed));
        const auto multiply = [&](const kernels::cpu::SecondFactor& second) {
          const auto out = at::empty({s.rows, s.columns}, at::kBFloat16);
          panel_product(
              best_panel_unit(), a.factor, second, {s.rows, s.columns, s.depth},
              kernels::cpu::Bfloat16Result{.data = mutable_bits_of(out), .stride = s.columns});
          return out;
        };
        support::expect_same_bits(multiply({.packed = bits_of(packed)}), multiply({b.factor}),
                                  "product");
      });
}

// Without AMX rows are multiplied where they lie; a transposed factor is always packed. What is
// behind a row, and behind the last one, is NaN.
TEST_F(PanelProductTest, RowsAndPackedPanelsGiveTheSameBits) {
  for (const auto& s : kSizesOfRows) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.rows, s.columns, s.depth));
    const auto a = random({s.rows, s.depth}, at::kBFloat16, 1);
    const auto b = random({s.depth, s.columns}, at::kBFloat16, 2);
    const StoredFactor second(b, false);
    const auto multiply = [&](const Factor& first) {
      const auto out = at::zeros({s.rows, s.columns}, at::kFloat);
      panel_product(
          best_panel_unit(), first, {second.factor}, {s.rows, s.columns, s.depth},
          kernels::cpu::FloatResult{.data = out.mutable_data_ptr<float>(), .stride = s.columns});
      return out;
    };
    const StoredFactor packed(a, true);
    const auto expected = multiply(packed.factor);
    for (const int64_t behind : {3, 32, 2048}) {
      SCOPED_TRACE(behind);
      const StoredFactor rows(a, false, behind);
      support::expect_same_bits(multiply(rows.factor), expected, "product");
      support::expect_same_bits_for_any_threads(
          [&] { return std::vector<at::Tensor>{multiply(rows.factor)}; }, {2, 5});
    }
  }
}

TEST_F(PanelProductTest, AResidualIsAddedToTheRoundedProduct) {
  for_each_case(
      [](const StoredFactor& a, const StoredFactor& b, const Sizes& s, const at::Tensor&) {
        const auto bias = random({s.columns}, at::kFloat, 3);
        const auto wide = random({s.rows, s.columns + 5}, at::kBFloat16, 4);
        const auto multiply = [&](const uint16_t* residual) {
          const auto out = at::full({s.rows, s.columns + 1}, 77, at::kBFloat16);
          panel_product(best_panel_unit(), a.factor, {b.factor}, {s.rows, s.columns, s.depth},
                        kernels::cpu::Bfloat16Result{.data = mutable_bits_of(out),
                                                     .stride = out.size(1),
                                                     .bias = bias.const_data_ptr<float>(),
                                                     .residual = residual,
                                                     .residual_stride = wide.size(1)});
          EXPECT_TRUE(out.select(1, -1).eq(77).all().item<bool>());
          return out.narrow(1, 0, s.columns).contiguous();
        };
        support::expect_same_bits(multiply(mutable_bits_of(wide) + 2),
                                  multiply(nullptr) + wide.narrow(1, 2, s.columns), "sum");
      });
}

TEST_F(PanelProductTest, LargeResultsGoPastTheCachesWithTheSameBits) {
  // The first is large enough for that; the second one's rows do not start at cache lines.
  const auto a = random({1100, 64}, at::kBFloat16, 1), b = random({64, 512}, at::kBFloat16, 2);
  const auto multiply = [&](int64_t stride) {
    const auto out = at::zeros({1100, stride}, at::kBFloat16);
    panel_product(best_panel_unit(), {mutable_bits_of(a), 64}, {mutable_bits_of(b), 512},
                  {1100, 512, 64},
                  kernels::cpu::Bfloat16Result{.data = mutable_bits_of(out), .stride = stride});
    return out.narrow(1, 0, 512).contiguous();
  };
  support::expect_same_bits(multiply(512), multiply(515), "product");
}

TEST_F(PanelProductTest, LargeFloatResultsGoPastTheCachesWithTheSameBits) {
  const auto a = random({1100, 64}, at::kBFloat16, 1), b = random({64, 512}, at::kBFloat16, 2);
  const auto multiply = [&](int64_t stride, bool is_transposed) {
    const auto rows = is_transposed ? 512 : 1100, columns = is_transposed ? 1100 : 512;
    const auto out = at::zeros({rows, stride}, at::kFloat);
    panel_product(best_panel_unit(), {mutable_bits_of(a), 64}, {mutable_bits_of(b), 512},
                  {1100, 512, 64},
                  kernels::cpu::FloatResult{.data = out.mutable_data_ptr<float>(),
                                            .stride = stride,
                                            .is_transposed = is_transposed});
    return out.narrow(1, 0, columns).contiguous();
  };
  const auto expected = multiply(515, false);  // rows that do not start at cache lines
  support::expect_same_bits(multiply(512, false), expected, "product");
  support::expect_same_bits(multiply(1104, true), expected.t().contiguous(), "turned product");
}

TEST_F(PanelProductTest, ANanStaysInItsRowAndColumn) {
  const auto a = random({40, 70}, at::kBFloat16, 1), b = random({70, 50}, at::kBFloat16, 2);
  a[37][69] = std::numeric_limits<float>::quiet_NaN();
  const auto out = at::zeros({40, 50}, at::kFloat);
  panel_product(best_panel_unit(), {mutable_bits_of(a), 70}, {mutable_bits_of(b), 50}, {40, 50, 70},
                kernels::cpu::FloatResult{.data = out.mutable_data_ptr<float>(), .stride = 50});
  EXPECT_TRUE(out[37].isnan().all().item<bool>());
  EXPECT_EQ(out.isnan().sum().item<int64_t>(), 50);
}

TEST_F(PanelProductTest, SameBitsForAnyNumberOfThreads) {
  const auto a = random({500, 1100}, at::kBFloat16, 1), b = random({1100, 330}, at::kBFloat16, 2);
  support::expect_same_bits_for_any_threads(
      [&] {
        const auto out = at::zeros({500, 330}, at::kFloat), sums = at::zeros({500}, at::kFloat);
        panel_product(best_panel_unit(), {mutable_bits_of(a), 1100}, {mutable_bits_of(b), 330},
                      {500, 330, 1100},
                      kernels::cpu::FloatResult{.data = out.mutable_data_ptr<float>(),
                                                .stride = 330,
                                                .row_sums = sums.mutable_data_ptr<float>()});
        return std::vector<at::Tensor>{out, sums};
      },
      {2, 3, 7, 16});
}

// What is chosen is tiles where there is AMX, so vectors are tested by themselves. Of a part of a
// panel the rest is noise that must not come in.
TEST_F(PanelProductTest, VectorsAddWhatTheFactorsSay) {
  namespace cpu = kernels::cpu;
  constexpr int64_t kSteps = 3, kDepth = kSteps * cpu::kBlockSide;
  const cpu::PanelScope scope(cpu::PanelUnit::kVectors);
  cpu::AlignedBuffer<uint16_t> first, second;
  cpu::AlignedBuffer<float> block;
  auto* sums = block.reserve(cpu::kBlockValues);
  const auto found = at::from_blob(sums, {cpu::kBlockSide, cpu::kBlockSide}, at::kFloat);
  const std::vector<cpu::PanelExtent> extents = {
      {kDepth}, {kDepth, 32, 16}, {kDepth, 9, 17}, {kDepth - 27, 8, 5}, {1, 1, 1}};
  for (const auto& [depth, lines, columns] : extents) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", lines, columns, depth));
    const auto a = random({cpu::kBlockSide, depth}, at::kBFloat16, 1);
    const auto b = random({depth, cpu::kBlockSide}, at::kBFloat16, 2);
    cpu::pack_first({mutable_bits_of(a), depth}, 0, cpu::kBlockSide, 0, depth,
                    first.reserve(kSteps * cpu::kStepValues));
    cpu::pack_second({mutable_bits_of(b), cpu::kBlockSide}, 0, cpu::kBlockSide, 0, depth,
                     second.reserve(kSteps * cpu::kStepValues));
    const auto part = [&, height = lines, width = columns](const at::Tensor& x) {
      return x.narrow(0, 0, height).narrow(1, 0, width);
    };
    const auto expected = part(a.to(at::kDouble).matmul(b.to(at::kDouble)));
    found.fill_(std::numeric_limits<float>::quiet_NaN());
    for (const bool adds : {false, true}) {
      cpu::multiply_panels(scope, {first.data()}, {second.data()}, {depth, lines, columns}, adds,
                           sums);
      support::expect_close(part(found), adds ? 2 * expected : expected, at::kFloat, "product");
    }
  }
}

// One head's rows inside of a wider tensor, and what comes of them.
struct HeadCase {
  HeadCase(int64_t N, int64_t K)
      : N(N),
        K(K),
        qkv(random({N, 3 * K}, at::kBFloat16, 1)),
        dout(random({N, K}, at::kBFloat16, 2)) {}

  struct Results {
    at::Tensor out, log_sums, dqkv;
  };
  kernels::cpu::QkvRows inputs() const {
    auto* data = mutable_bits_of(qkv);
    return {{data, 3 * K}, {data + K, 3 * K}, {data + 2 * K, 3 * K}};
  }
  kernels::cpu::QkvGradientRows gradients(const at::Tensor& dqkv) const {
    auto* data = mutable_bits_of(dqkv);
    return {{data, 3 * K}, {data + K, 3 * K}, {data + 2 * K, 3 * K}};
  }
  Results empty() const {
    return {at::zeros({N, K}, at::kBFloat16), at::zeros({N}), at::zeros({N, 3 * K}, at::kBFloat16)};
  }

  Results on_panels() const {
    const kernels::cpu::PanelScope scope(best_panel_unit());
    kernels::cpu::PanelAttentionScratch scratch;
    const auto r = empty();
    auto* sums = r.log_sums.mutable_data_ptr<float>();
    panel_attention_forward(scope, scratch, inputs(), {}, N, K, kScale, {mutable_bits_of(r.out), K},
                            sums);
    panel_attention_backward(scope, scratch, inputs(), {mutable_bits_of(r.out), K},
                             {mutable_bits_of(dout), K}, sums, N, K, kScale, gradients(r.dqkv));
    return r;
  }
  // The definition, in float64.
  Results in_float64() const {
    const auto wide = qkv.to(at::kDouble).requires_grad_();
    const auto parts = wide.split(K, 1);
    const auto scores = parts[0].matmul(parts[1].t()) * static_cast<double>(kScale);
    const auto result = scores.softmax(-1).matmul(parts[2]);
    result.backward(dout.to(at::kDouble));
    return {result.detach(), scores.detach().logsumexp(-1), wide.grad()};
  }

  static constexpr float kScale = 0.3f;
  int64_t N, K;
  at::Tensor qkv, dout;
};

using PanelAttentionTest = PanelsTest;

TEST_F(PanelAttentionTest, OutIsTheSameInPartsAndWithoutLogSums) {
  const HeadCase head(197, 64);
  const auto expected = head.on_panels().out;
  const kernels::cpu::PanelScope scope(best_panel_unit());
  kernels::cpu::PanelAttentionScratch scratch;
  for (const int64_t parts : {1, 2, 3, 8}) {
    SCOPED_TRACE(fmt::format("{} parts", parts));
    const auto r = head.empty();
    for (int64_t i = 0; i < parts; ++i) {
      panel_attention_forward(scope, scratch, head.inputs(), {i, parts}, head.N, head.K,
                              HeadCase::kScale, {mutable_bits_of(r.out), head.K}, nullptr);
    }
    support::expect_same_bits(r.out, expected, "out");
  }
}

TEST_F(PanelAttentionTest, MatchesFloat64) {
  for (const int64_t N : {1, 31, 32, 33, 197}) {
    for (const int64_t K : {8, 32, 64, 80, 88}) {
      SCOPED_TRACE(fmt::format("{} tokens, head_dim {}", N, K));
      const HeadCase head(N, K);
      const auto found = head.on_panels(), expected = head.in_float64();
      support::expect_close(found.out.to(at::kDouble), expected.out, at::kBFloat16, "out");
      support::expect_close(found.log_sums, expected.log_sums, at::kFloat, "log sums");
      support::expect_close(found.dqkv.to(at::kDouble), expected.dqkv, at::kBFloat16, "gradients");
    }
  }
}

TEST_F(PanelAttentionTest, ScratchMayComeFromAnotherSize) {
  const HeadCase small(20, 32), large(197, 64);
  const auto expected = small.on_panels();
  large.qkv.fill_(std::numeric_limits<float>::quiet_NaN());  // nothing of it may come in
  const kernels::cpu::PanelScope scope(best_panel_unit());
  kernels::cpu::PanelAttentionScratch scratch;
  for (const auto* head : {&large, &small}) {
    const auto r = head->empty();
    auto* sums = r.log_sums.mutable_data_ptr<float>();
    panel_attention_forward(scope, scratch, head->inputs(), {}, head->N, head->K, HeadCase::kScale,
                            {mutable_bits_of(r.out), head->K}, sums);
    panel_attention_backward(scope, scratch, head->inputs(), {mutable_bits_of(r.out), head->K},
                             {mutable_bits_of(head->dout), head->K}, sums, head->N, head->K,
                             HeadCase::kScale, head->gradients(r.dqkv));
    if (head == &large) continue;
    support::expect_same_bits(r.out, expected.out, "out");
    support::expect_same_bits(r.dqkv, expected.dqkv, "gradients");
  }
}

}  // namespace
}  // namespace fovea
