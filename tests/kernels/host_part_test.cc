#include "fovea/kernels/host_part.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/operator_tape.h"

namespace fovea {
namespace {

using kernels::host_values;
using support::OperatorTape;

at::Tensor numbers(const double& from) {
  return host_values({3}, at::kDouble, at::kCPU,
                     [&from](const at::Tensor& host) { host.fill_(from); });
}

TEST(HostPartTest, ValuesAndChecksAreDoneAtOnceInAnEagerStep) {
  double value = 2;
  EXPECT_EQ(numbers(value).sum().item<double>(), 6);
  EXPECT_THROW(kernels::host_check([] { fail("bad"); }), Error);
  EXPECT_FALSE(kernels::is_step_recorded());
  EXPECT_NO_THROW(kernels::refuse_recording("something"));
}

TEST(HostPartTest, ValuesAndChecksAreThoseOfEachReplay) {
  double value = 2;
  int checks = 0;
  auto total = at::zeros({3}, at::kDouble);
  OperatorTape tape;
  kernels::HostPart part;
  at::Tensor product;
  tape.record([&] {
    const kernels::RecordingScope scope(part, tape);
    kernels::host_check([&] { ++checks; });
    EXPECT_THROW(kernels::refuse_recording("something"), Error);
    product = numbers(value) * 10;
    total += product;
  });
  EXPECT_FALSE(kernels::is_step_recorded());
  EXPECT_EQ(total.sum().item<double>(), 0) << "a recording does nothing";
  checks = 0;
  double sum = 0;
  for (const double next : {3.0, 5.0}) {
    value = next;
    part.check();
    part.fill();
    tape.replay();
    sum += 10 * next;
    support::expect_same_bits(product, at::full({3}, 10 * next, at::kDouble), "product");
    support::expect_same_bits(total, at::full({3}, sum, at::kDouble), "total");
  }
  EXPECT_EQ(checks, 2);
}

// A graph that notes nothing but who asks it.
class AskedGraph final : public kernels::DeviceGraph {
 public:
  void rehearse(const std::function<void()>& work) override { work(); }
  void record(const std::function<void()>& work) override { work(); }
  void aside(const std::function<void()>& work) override { work(); }
  void apart(const std::function<void()>& work) override {
    ++num_apart;
    work();
  }
  void replay() override {}

  int num_apart = 0;
};

TEST(HostPartTest, ValuesOfARecordedStepLieApartFromWhatTheGraphUses) {
  const double value = 2;
  AskedGraph graph;
  kernels::HostPart part;
  graph.record([&] {
    const kernels::RecordingScope scope(part, graph);
    EXPECT_EQ(numbers(value).sum().item<double>(), 6);
    EXPECT_EQ(numbers(value).sum().item<double>(), 6);
  });
  EXPECT_EQ(graph.num_apart, 2);
}

TEST(OperatorTapeTest, NumbersOfTheHostStayAsTheyWere) {
  double factor = 2;
  const auto x = at::full({4}, 1.0);
  at::Tensor y;
  OperatorTape tape;
  tape.record([&] { y = (x * factor).view({2, 2}).t() + 1; });
  factor = 7;
  const at::NoGradGuard no_grad;
  x.fill_(5);
  tape.replay();
  support::expect_same_bits(y, at::full({2, 2}, 11.0), "y");
}

TEST(OperatorTapeTest, BackwardPassesAreNotedToo) {
  auto weight = at::full({2}, 3.0, at::kDouble).set_requires_grad(true);
  const auto x = at::full({2}, 1.0, at::kDouble);
  weight.mutable_grad() = at::zeros({2}, at::kDouble);
  OperatorTape tape;
  tape.record([&] { (weight * weight * x).sum().backward(); });
  EXPECT_EQ(weight.grad().sum().item<double>(), 0);
  x.fill_(2);
  tape.replay();
  support::expect_same_bits(weight.grad(), at::full({2}, 12.0, at::kDouble), "gradient");
}

TEST(OperatorTapeTest, WaitingForTheDeviceFailsAndLeavesMemoryAsItWas) {
  const auto x = at::full({4}, 1.0);
  for (const auto& wait : std::vector<std::function<void()>>{
           [&] { x.sum().item<float>(); }, [&] { at::nonzero(x); }, [&] { at::equal(x, x); }}) {
    OperatorTape tape;
    EXPECT_THROW(tape.record([&] {
      x.add_(1);
      wait();
    }),
                 Error);
    support::expect_same_bits(x, at::full({4}, 1.0), "x");
  }
}

}  // namespace
}  // namespace fovea
