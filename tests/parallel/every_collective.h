// What every communicator has to do, whatever carries it.
#pragma once

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel::testing {

// Every collective, in one dtype. Numbers are small integers, exact in all of them.
inline void check_collectives(Communicator& ranks, at::ScalarType dtype,
                              at::Device device = at::kCPU) {
  const auto options = at::TensorOptions().dtype(dtype).device(device);
  const int64_t n = ranks.size(), r = ranks.rank();
  const auto numbers = [&](int64_t of_rank, int64_t count) {
    return (at::arange(count) + 10 * of_rank).to(options);
  };
  auto sum = numbers(r, 4);
  ranks.all_reduce(sum, "a sum");
  auto expected = at::zeros({4}, options);
  for (int64_t rank = 0; rank < n; ++rank) expected += numbers(rank, 4);
  EXPECT_TRUE(sum.equal(expected)) << sum;

  auto largest = numbers(r, 4);
  ranks.all_reduce(largest, "a maximum", ReduceOp::kMax);
  EXPECT_TRUE(largest.equal(numbers(n - 1, 4))) << largest;

  auto sent = numbers(r, 3);
  ranks.broadcast(sent, n - 1, "a broadcast");
  EXPECT_TRUE(sent.equal(numbers(n - 1, 3))) << sent;

  const auto gathered = at::zeros({n, 2}, options);
  ranks.all_gather(gathered, numbers(r, 2), "parts");
  for (int64_t rank = 0; rank < n; ++rank) EXPECT_TRUE(gathered[rank].equal(numbers(rank, 2)));

  const auto part = at::zeros({2}, options);
  ranks.reduce_scatter(part, numbers(r, 2 * n), "a sum in parts");
  auto all = at::zeros({2 * n}, options);
  for (int64_t rank = 0; rank < n; ++rank) all += numbers(rank, 2 * n);
  EXPECT_TRUE(part.equal(all.narrow(0, 2 * r, 2))) << part;

  const auto exchanged = at::zeros({n, 2}, options);
  ranks.all_to_all(exchanged, numbers(r, 2 * n), "parts for each");
  for (int64_t rank = 0; rank < n; ++rank) {
    EXPECT_TRUE(exchanged[rank].equal(numbers(rank, 2 * n).narrow(0, 2 * r, 2)));
  }

  const auto before = at::zeros({3}, options);
  ranks.shift(before, numbers(r, 3), "to the next");
  EXPECT_TRUE(before.equal(numbers((r + n - 1) % n, 3))) << before;
}

}  // namespace fovea::parallel::testing
