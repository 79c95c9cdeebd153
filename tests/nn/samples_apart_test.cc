#include "fovea/nn/samples_apart.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/own_threads.h"
#include "fovea/kernels/linear/product_path.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/nn/block.h"
#include "fovea/nn/block_list.h"
#include "tests/nn/layers_common.h"
#include "tests/support/parity.h"

namespace fovea::nn {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr int64_t kTokens = 70, kApartDim = 64;

struct ApartStack : torch::nn::Module {
  ApartStack() {
    randomize(*this, 1);
    eval();
    assign_names(*this);
  }
  BlockList<TransformerBlock> blocks{*this, "blocks", 2, 0.0, [](int64_t, double) {
                                       return make_block(
                                           {.attention = {.dim = kApartDim, .num_heads = 2},
                                            .mlp = {.dim = kApartDim, .hidden_dim = 128}},
                                           at::kCPU);
                                     }};
};

using Threads = kernels::cpu::OwnThreadsScope;

// The sizes of the parts that a batch of B samples of kTokens tokens is cut into by 3 threads.
std::vector<int64_t> parts_of(const Tensors& inputs, const std::vector<UnitImpl*>& units = {}) {
  const Threads three(3);
  std::vector<std::atomic<int64_t>> sizes(static_cast<size_t>(inputs[0].size(0)));
  forward_apart(units, inputs, [&](const Tensors& given) {
    // Which sample a part begins with is the first value of it.
    sizes[static_cast<size_t>(given[0].flatten()[0].item<double>())] = given[0].size(0);
    return Tensors{given[0]};
  });
  std::vector<int64_t> found;
  for (const auto& size : sizes) {
    if (size > 0) found.push_back(size);
  }
  return found;
}

at::Tensor numbered(int64_t B, int64_t tokens = kTokens, at::ScalarType dtype = at::kFloat) {
  return at::arange(B, at::TensorOptions(dtype))
      .view({B, 1, 1})
      .expand({B, tokens, kApartDim})
      .clone();
}

bool has_own_kernels() { return kernels::multiplies_rows_apart(at::kFloat); }

class SamplesApartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_own_kernels()) GTEST_SKIP() << "skipped: this path multiplies by a library";
  }
  const at::NoGradGuard no_grad_;
};

TEST_F(SamplesApartTest, CutsABatchForAllThreadsAlike) {
  const SamplesApartScope scope;
  EXPECT_EQ(parts_of({numbered(2)}), (std::vector<int64_t>{2}));  // fewer than threads
  EXPECT_EQ(parts_of({numbered(3)}), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(parts_of({numbered(5)}), (std::vector<int64_t>{5}));  // two threads would wait
  EXPECT_EQ(parts_of({numbered(7)}), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(parts_of({numbered(40)}),
            (std::vector<int64_t>{6, 6, 6, 6, 5, 3, 2, 2, 1, 1, 1, 1}));  // smaller at the end
  EXPECT_EQ(parts_of({numbered(75, 40)}),
            (std::vector<int64_t>{12, 12, 12, 12, 9, 6, 4, 2, 2, 2, 2}));  // 2 samples at least
  EXPECT_EQ(parts_of({numbered(6, 20)}), (std::vector<int64_t>{6}));  // rows of a library's product
}

TEST_F(SamplesApartTest, IsLeftWholeWhereSomebodyLooks) {
  const auto x = numbered(6);
  const std::vector<int64_t> whole = {6};
  EXPECT_EQ(parts_of({x}), whole) << "nobody asked for it";
  const SamplesApartScope scope;
  EXPECT_EQ(parts_of({x}).size(), 3U);
  EXPECT_EQ(parts_of({x, at::ones({6, kTokens}, at::kBool)}).size(), 3U);
  EXPECT_EQ(parts_of({x, at::Tensor()}).size(), 3U);
  EXPECT_EQ(parts_of({x, at::ones({6, kApartDim})}), whole) << "a condition";
  EXPECT_EQ(parts_of({x, at::ones({7}, at::kLong)}), whole) << "offsets";
  EXPECT_EQ(parts_of({x.to(at::kDouble)}), whole);
  {
    const RecordScope recorder;
    EXPECT_EQ(parts_of({x}), whole) << "intermediates";
  }
  {
    const at::AutoGradMode grad(true);
    EXPECT_EQ(parts_of({x}), whole) << "gradients";
  }
  ApartStack stack;
  auto* const unit = units_of(stack).values().back();
  EXPECT_EQ(parts_of({x}, {unit}).size(), 3U);
  unit->before_forward.emplace_back([](const UnitImpl&) {});
  EXPECT_EQ(parts_of({x}, {unit}), whole) << "a callback";
}

// Through blocks, with masks, taps and tokens that alone are read.
TEST_F(SamplesApartTest, HasTheSameBitsApartAndForAnyThreads) {
  const ApartStack stack;
  const auto copies = kernels::WeightCopies::of_model(stack.parameters());
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t B : {3, 7, 12}) {
      const auto x = support::random({B, kTokens, kApartDim}, dtype, 4);
      const auto mask = at::arange(kTokens).lt(at::arange(B).view({B, 1}) + 50);  // [B, N]
      const auto run = [&] {
        Tensors made;
        made.push_back(stack.blocks.forward_tapped({0}, &made, x, mask, at::Tensor()));
        made.push_back(stack.blocks.forward_read(1, x, at::Tensor(), at::Tensor()));
        return made;
      };
      const auto whole = run();
      ASSERT_EQ(whole.size(), 3U);
      for (const int threads : {1, 2, 3}) {
        const Threads some(threads);
        const SamplesApartScope scope;
        const auto apart = run();
        for (size_t i = 0; i < whole.size(); ++i) {
          support::expect_same_bits(apart[i], whole[i],
                                    fmt::format("{} of {} samples, {} threads", i, B, threads));
        }
      }
    }
  }
}

TEST_F(SamplesApartTest, EachPartRunsInOneThreadWithTheModesOfTheCaller) {
  const Threads two(2);
  const SamplesApartScope scope;
  std::atomic<int> parts = 0, alone = 0;
  forward_apart({}, {numbered(4, 800)}, [&](const Tensors& given) {
    parts += 1;
    alone += at::get_num_threads() == 1 && !at::GradMode::is_enabled() &&
             !forward_context().samples_apart;
    return given;
  });
  EXPECT_EQ(parts, 4);
  EXPECT_EQ(alone, 4);
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST_F(SamplesApartTest, ThrowsWhatAPartThrows) {
  const Threads two(2);
  const SamplesApartScope scope;
  try {
    forward_apart({}, {numbered(4)}, [](const Tensors&) -> Tensors { fail("a part of it"); });
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a part of it"));
  }
}

}  // namespace
}  // namespace fovea::nn
