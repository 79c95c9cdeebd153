#include "fovea/optim/flat_params.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::optim {
namespace {

at::Tensor leaf(const std::vector<int64_t>& shape, uint64_t seed) {
  return support::random(shape, at::kFloat, seed).set_requires_grad(true);
}

TEST(FlatParamsTest, KeepsLeavesAndValuesAndAccumulatesIntoTheBuffer) {
  const auto a = leaf({3, 5}, 1), b = leaf({7}, 2);
  const auto a_before = a.detach().clone();
  FlatParams flat({{"a", a}, {"b", b}});
  support::expect_same_bits(a.detach(), a_before, "a");
  EXPECT_TRUE(a.is_leaf() && a.requires_grad());
  EXPECT_EQ(a.data_ptr(), flat.param().data_ptr());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data_ptr()) % 64, 0u);

  for (int pass = 0; pass < 2; ++pass) ((a * a).sum() + (b * 3).sum()).backward();
  const auto grads = flat.views(flat.grad());
  support::expect_close(grads[0], 4 * a_before, at::kFloat, "a.grad");
  support::expect_close(grads[1], at::zeros({7}) + 6, at::kFloat, "b.grad");
  EXPECT_EQ(a.grad().data_ptr(), flat.grad().data_ptr());
  flat.zero_grad();
  EXPECT_EQ(b.grad().abs().sum().item<float>(), 0);
}

TEST(FlatParamsTest, TakesBackGradientsThatWereDroppedOrReplaced) {
  const auto a = leaf({4}, 1), b = leaf({4}, 2);
  FlatParams flat({{"a", a}, {"b", b}});
  flat.grad().fill_(5);
  a.mutable_grad() = at::Tensor();
  b.mutable_grad() = at::zeros({4}) + 2;
  const auto grads = flat.views(flat.grad());
  EXPECT_EQ(grads[0].sum().item<float>(), 0);
  EXPECT_EQ(grads[1].sum().item<float>(), 8);
  b.sum().backward();
  EXPECT_EQ(grads[1].sum().item<float>(), 12);
}

// Of three parameters, the second of which is a part without elements.
std::vector<ParamSpec> placed_params(const kernels::FlatBuffers& buffers) {
  std::vector<ParamSpec> specs;
  for (const auto& [begin, size] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {16, 0}, {32, 20}}) {
    const auto part = kernels::flat_view(buffers.values, begin, {size}).set_requires_grad(true);
    auto& spec = specs.emplace_back(ParamSpec{std::to_string(begin), part});
    spec.part = kernels::TensorPart{.shape = {40}, .first = 3};
    spec.place = FlatPlace{.buffers = buffers, .begin = begin};
  }
  return specs;
}

kernels::FlatBuffers buffers_of(int64_t num_elements) {
  kernels::FlatBuffers buffers{.values = support::random({num_elements}, at::kFloat, 1),
                               .gradients = at::zeros({num_elements}),
                               .copy = at::zeros({num_elements}, at::kBFloat16)};
  return buffers;
}

TEST(FlatParamsTest, TakesOverTheBuffersThatParametersLieIn) {
  const auto buffers = buffers_of(64);
  const auto before = buffers.values.clone();
  FlatParams flat(placed_params(buffers));
  EXPECT_TRUE(flat.param().is_same(buffers.values) && flat.grad().is_same(buffers.gradients));
  support::expect_same_bits(flat.param(), before, "values");
  EXPECT_EQ(flat.params()[2].param.grad().data_ptr<float>(), flat.grad().data_ptr<float>() + 32);
  // A gradient that somebody writes where it belongs is not copied onto itself.
  flat.zero_grad();
  EXPECT_FALSE(flat.params()[2].param.grad().defined());
  const auto written = kernels::flat_view(buffers.gradients, 32, {20}).fill_(3);
  flat.params()[2].param.mutable_grad() = written;
  buffers.gradients.narrow(0, 0, 5).fill_(7);  // of nobody
  EXPECT_EQ(flat.grad().sum().item<float>(), 60);
  EXPECT_TRUE(flat.params()[2].param.grad().is_same(written));

  auto elsewhere = placed_params(buffers);
  elsewhere[2].place->begin = 16;
  EXPECT_THROW(FlatParams{elsewhere}, Error);
  auto without = placed_params(buffers);
  without[2].place.reset();
  EXPECT_THROW(FlatParams{without}, Error);
}

TEST(FlatParamsTest, AChangeBetweenForwardAndBackwardIsAnError) {
  const auto a = leaf({4}, 1);
  FlatParams flat({{"a", a}});
  const auto loss = (a * a).sum();
  flat.mark_changed();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(FlatParamsTest, RefusesWhatItCannotFlatten) {
  const auto a = leaf({4}, 1);
  EXPECT_THROW(FlatParams({}), Error);
  EXPECT_THROW(FlatParams({{"a", a}, {"tied", a}}), Error);
  EXPECT_THROW(FlatParams({{"a", a * 2}}), Error);
  EXPECT_THROW(FlatParams({{"a", at::zeros({2}, at::kBFloat16)}}), Error);
  EXPECT_THROW(FlatParams({{"a", a}, {"b", at::zeros({2}, at::kDouble)}}), Error);
}

TEST(FlatParamsTest, TakesFloat64) {
  FlatParams flat({{"a", at::ones({3}, at::kDouble)}});
  EXPECT_EQ(flat.param().scalar_type(), at::kDouble);
  EXPECT_EQ(flat.grad().scalar_type(), at::kDouble);
}

TEST(FlatParamsTest, TilesCoverEachElementOnce) {
  const std::vector<Segment> segments = {{0, 5}, {16, 100000}, {100016, 0}, {100032, 16384}};
  std::vector<int> seen(120000);
  for_each_tile(segments, [&](size_t i, int64_t begin, int64_t end) {
    EXPECT_GE(begin, segments[i].begin);
    for (int64_t at = begin; at < end; ++at) ++seen[at];
  });
  std::vector<int> expected(seen.size());
  for (const auto& segment : segments) {
    for (int64_t i = 0; i < segment.size; ++i) ++expected[segment.begin + i];
  }
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace fovea::optim
