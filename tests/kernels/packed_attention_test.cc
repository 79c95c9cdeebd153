// Self-attention and drops of sequences that lie one behind another in a single row.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/elementwise/drop.h"
#include "fovea/kernels/elementwise/residual.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

// N tokens of a sequence, T of all, H heads, K head_dim.
namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;
using Lengths = std::vector<int64_t>;

constexpr double kScaleOfPacked = 0.29;
constexpr int64_t kHeads = 3, kHeadDim = 24;

Lengths offsets_of(const Lengths& lengths) {
  Lengths offsets = {0};
  for (const auto length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

support::TensorFunction packed_attention(const Lengths& lengths) {
  return [offsets = offsets_of(lengths)](const Inputs& in) {
    return kernels::packed_self_attention(in[0], kHeads, kScaleOfPacked, offsets);
  };
}

// Each sequence by itself.
support::TensorFunction attention_one_by_one(const Lengths& lengths) {
  return [lengths](const Inputs& in) {
    Inputs outs;
    for (const auto& qkv : in[0].split_with_sizes(lengths, 1)) {
      outs.push_back(kernels::self_attention(qkv, kHeads, kScaleOfPacked));
    }
    return at::cat(outs, 1);
  };
}

support::TensorFunction reference_one_by_one(const Lengths& lengths) {
  return [lengths](const Inputs& in) {
    Inputs outs;
    for (const auto& qkv : in[0].split_with_sizes(lengths, 1)) {
      const auto parts = qkv.unflatten(-1, {3, kHeads, -1}).permute({2, 0, 3, 1, 4});
      outs.push_back(reference::attention(parts[0], parts[1], parts[2], kScaleOfPacked)
                         .transpose(1, 2)
                         .flatten(2));
    }
    return at::cat(outs, 1);
  };
}

at::Tensor packed_qkv(const Lengths& lengths, at::ScalarType dtype) {
  return random({1, offsets_of(lengths).back(), 3 * kHeads * kHeadDim}, dtype, 5);
}

// One sequence; short ones; long ones between and beside short ones.
const std::vector<Lengths> kPacks = {{17},         {1, 1, 1},       {5, 17, 1, 50, 33},
                                     {300, 4, 19}, {7, 257, 3, 50}, {256, 384, 385, 2}};

class PackedAttentionTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  ~PackedAttentionTest() override { kernels::choose_attention("auto", c10::Device(c10::kCPU)); }
};

TEST_P(PackedAttentionTest, MatchesReferenceWithGradients) {
  for (const auto& lengths : kPacks) {
    SCOPED_TRACE(testing::PrintToString(lengths));
    support::expect_matches_reference(packed_attention(lengths), reference_one_by_one(lengths),
                                      {packed_qkv(lengths, GetParam())}, GetParam());
  }
}

TEST_P(PackedAttentionTest, IsToTheBitEachSequenceAlone) {
  for (const auto* name : {"auto", "own", "flash", "math"}) {
    kernels::choose_attention(name, c10::Device(c10::kCPU));
    for (const auto& lengths : kPacks) {
      SCOPED_TRACE(std::string(name) + " " + testing::PrintToString(lengths));
      const Inputs in = {packed_qkv(lengths, GetParam())};
      const auto found = support::gradients(packed_attention(lengths), in);
      const auto expected = support::gradients(attention_one_by_one(lengths), in);
      support::expect_same_bits(found.output, expected.output, "output");
      support::expect_same_bits(found.inputs[0], expected.inputs[0], "gradient");
    }
  }
}

TEST_P(PackedAttentionTest, SequencesDoNotSeeEachOther) {
  const Lengths lengths = {5, 17, 300};
  auto qkv = packed_qkv(lengths, GetParam());
  const auto before = packed_attention(lengths)({qkv});
  qkv.narrow(1, 5, 17).add_(1);
  const auto after = packed_attention(lengths)({qkv});
  support::expect_same_bits(after.narrow(1, 0, 5), before.narrow(1, 0, 5), "the one before");
  support::expect_same_bits(after.narrow(1, 22, 300), before.narrow(1, 22, 300), "the one behind");
  EXPECT_GT((after - before).narrow(1, 5, 17).abs().min().item<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, PackedAttentionTest,
                         testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(PackedAttentionTest, SameBitsForAnyNumberOfThreads) {
  // Also of one token beside so many that heads are cut by queries.
  for (const Lengths& lengths : {Lengths{17, 50, 3, 197, 50, 65, 1}, {1000, 1}}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::PrintToString(lengths));
      const Inputs in = {packed_qkv(lengths, dtype)};
      const auto compute = [&] {
        const auto result = support::gradients(packed_attention(lengths), in);
        return Inputs{result.output, result.inputs[0]};
      };
      support::expect_same_bits_for_any_threads(compute, {2, 3, 16});
    }
  }
}

TEST(PackedAttentionTest, MayRunInSeveralKernels) {
  const Lengths lengths = {5, 2305, 33, 1};  // of which libtorch's takes the longest one
  const Inputs in = {packed_qkv(lengths, at::kFloat)};
  const auto found = support::gradients(packed_attention(lengths), in);
  const auto expected = support::gradients(attention_one_by_one(lengths), in);
  support::expect_same_bits(found.output, expected.output, "output");
  support::expect_same_bits(found.inputs[0], expected.inputs[0], "gradient");
}

TEST(PackedAttentionTest, JacobianIsTheDerivative) {
  support::expect_gradients_are_derivatives(
      [](const Inputs& in) {
        return kernels::packed_self_attention(in[0], 2, kScaleOfPacked, {0, 2, 5});
      },
      {random({1, 5, 12}, at::kDouble, 1)});
}

TEST(PackedAttentionTest, RefusesOffsetsThatAreNoSequences) {
  const auto attend = [](const at::Tensor& qkv, const Lengths& offsets) {
    return kernels::packed_self_attention(qkv, 2, kScaleOfPacked, offsets);
  };
  const auto qkv = random({1, 5, 96}, at::kFloat, 1);
  EXPECT_NO_THROW(attend(qkv, {0, 3, 5}));
  for (const Lengths& wrong :
       {Lengths{}, {0}, {0, 4}, {0, 6}, {1, 5}, {0, 3, 3, 5}, {0, 4, 3, 5}}) {
    EXPECT_THROW(attend(qkv, wrong), Error) << testing::PrintToString(wrong);
  }
  EXPECT_THROW(attend(random({2, 5, 96}, at::kFloat, 1), {0, 5}), Error);
}

class PackedDropTest : public testing::Test {
 protected:
  const Lengths lengths_ = {4, 1, 9, 2, 3};
  const at::Tensor rows_ = at::tensor({7, 2, 30, 4, 11}, at::kLong);
  const at::Tensor x_ = random({1, 19, 6}, at::kDouble, 1);

  kernels::DropKey key() const {
    return {.key = philox_key(42, "blocks.1.mlp.drop1"), .step = 5, .rows = rows_};
  }
  // `drop` of each sample as a batch of its own row, one behind another.
  template <class Drop>
  at::Tensor one_by_one(const Drop& drop) const {
    Inputs outs;
    const auto samples = x_.split_with_sizes(lengths_, 1);
    for (size_t i = 0; i < samples.size(); ++i) {
      auto one = key();
      one.rows = rows_.narrow(0, static_cast<int64_t>(i), 1);
      outs.push_back(drop(samples[i], one));
    }
    return at::cat(outs, 1);
  }
  template <class Drop>
  at::Tensor packed(const Drop& drop) const {
    auto all = key();
    all.offsets = offsets_of(lengths_);
    return drop(x_, all);
  }
};

TEST_F(PackedDropTest, DropoutIsThatOfEachSample) {
  const auto drop = [](const at::Tensor& x, const kernels::DropKey& how) {
    return kernels::dropout(x, 0.4, how);
  };
  support::expect_same_bits(packed(drop), one_by_one(drop), "dropout");
}

TEST_F(PackedDropTest, DropoutOfAPartIsThatPartOfTheWhole) {
  const auto whole = [](const at::Tensor& x, const kernels::DropKey& how) {
    return kernels::dropout(x, 0.4, how);
  };
  const auto part = [](const at::Tensor& x, kernels::DropKey how) {
    how.parts = {{.dim = -1, .index = 1, .count = 3}};
    return kernels::dropout(x.narrow(2, 2, 2), 0.4, how);
  };
  support::expect_same_bits(packed(part), packed(whole).narrow(2, 2, 2), "middle third");
}

TEST_F(PackedDropTest, DropPathIsThatOfEachSample) {
  const auto drop = [](const at::Tensor& x, const kernels::DropKey& how) {
    return kernels::add_residual(at::zeros_like(x), x, {}, kernels::drop_path_mask(x, 0.5, how));
  };
  const auto dropped = packed(drop);
  support::expect_same_bits(dropped, one_by_one(drop), "drop path");
  const auto zeros = (dropped == 0).sum().item<int64_t>();
  EXPECT_TRUE(zeros > 0 && zeros < x_.numel()) << zeros;  // the draws of these rows differ
}

TEST_F(PackedDropTest, RefusesATensorOfAnotherLength) {
  auto all = key();
  all.offsets = {0, 4, 5, 14, 16, 18};
  EXPECT_THROW(kernels::dropout(x_, 0.4, all), Error);
  all.offsets = {0, 4, 19};  // two samples, five rows
  EXPECT_THROW(kernels::drop_path_mask(x_, 0.4, all), Error);
}

}  // namespace
}  // namespace fovea
