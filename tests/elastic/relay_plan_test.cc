#include "fovea/elastic/relay_plan.h"

#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fovea/checkpoint/assembly.h"
#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

using checkpoint::Box;
using checkpoint::Manifest;
using checkpoint::State;
using ::testing::HasSubstr;

constexpr int64_t kRows = 40, kColumns = 6;

// Elements [first, first + count) of a matrix, and a vector as a whole.
State part_state(int64_t first, int64_t count) {
  State state;
  state.model["matrix"] = at::zeros({count});
  state.parts["model"]["matrix"] = {.shape = {kRows, kColumns}, .first = first};
  state.model["vector"] = at::zeros({7});
  state.optimizer["exp_avg/matrix"] = at::zeros({count}, at::kDouble);
  state.parts["optimizer"]["exp_avg/matrix"] = {.shape = {kRows, kColumns}, .first = first};
  return state;
}

State whole_state() {
  State state;
  state.model["matrix"] = at::zeros({kRows, kColumns});
  state.model["vector"] = at::zeros({7});
  state.optimizer["exp_avg/matrix"] = at::zeros({kRows, kColumns}, at::kDouble);
  return state;
}

Manifest held_by(const std::vector<std::pair<std::string, State>>& workers) {
  Manifest held;
  for (const auto& [worker, state] : workers) join(held, describe(state, worker, 5));
  return held;
}

// Every wanted element comes once, from somebody who has it.
void expect_whole(const RelayPlan& plan, const Manifest& held,
                  const std::vector<WantedState>& wanted) {
  for (const auto& [worker, manifest] : wanted) {
    for (const auto& [part, tensors] : manifest.tensors) {
      for (const auto& [name, tensor] : tensors) {
        const auto count = at::zeros(tensor.shape);
        const auto add = [&, &to = worker, &of_part = part, &of = name](const Transfer& transfer) {
          if (transfer.to != to || transfer.part != of_part || transfer.name != of) return;
          part_of_box(count, checkpoint::whole_box(count.sizes().vec()), transfer.box).add_(1);
          if (transfer.from.empty()) return;
          bool is_there = false;
          for (const auto& slice : held.tensors.at(of_part).at(of).slices) {
            const auto both = common_box(checkpoint::box_of(slice), transfer.box);
            is_there |= slice.file == transfer.from && both == transfer.box;
          }
          EXPECT_TRUE(is_there) << transfer.from << " has not what it gives of " << of;
        };
        for (const auto& transfer : plan.transfers) add(transfer);
        for (const auto& transfer : plan.missing) add(transfer);
        auto expected = at::zeros(tensor.shape);
        for (const auto& slice : tensor.slices) {
          part_of_box(expected, checkpoint::whole_box(tensor.shape), checkpoint::box_of(slice))
              .add_(1);
        }
        EXPECT_TRUE(count.equal(expected)) << worker << " " << part << " " << name;
      }
    }
  }
}

std::map<std::string, uint64_t> bytes_by_giver(const RelayPlan& plan) {
  std::map<std::string, uint64_t> bytes;
  for (const auto& transfer : plan.transfers) {
    const uint64_t element = transfer.part == "optimizer" ? 8 : 4;
    if (transfer.from != transfer.to) {
      bytes[transfer.from] += static_cast<uint64_t>(transfer.box.numel()) * element;
    }
  }
  return bytes;
}

TEST(RelayPlanTest, WhoHasAllKeepsItAndGivesToWhoComes) {
  const auto held = held_by({{"a", whole_state()}, {"b", whole_state()}});
  std::vector<WantedState> wanted;
  for (const char* worker : {"a", "b", "c"}) {
    wanted.push_back({worker, describe(whole_state(), worker, -1)});
  }
  const auto plan = plan_relay(held, wanted, /*chunk_bytes=*/120);
  expect_whole(plan, held, wanted);
  EXPECT_TRUE(plan.missing.empty());
  auto bytes = bytes_by_giver(plan);
  EXPECT_EQ(bytes.size(), 2u);
  EXPECT_EQ(bytes["a"] + bytes["b"], plan.bytes);
  EXPECT_EQ(plan.bytes, 240u * 12 + 28);
  EXPECT_LE(bytes["a"], bytes["b"] + 120);  // as even as pieces are small
  EXPECT_LE(bytes["b"], bytes["a"] + 120);
  for (const auto& transfer : plan.transfers) {
    EXPECT_TRUE(transfer.from == transfer.to || transfer.to == "c");
  }
}

TEST(RelayPlanTest, NoPieceIsLargerThanItMayBe) {
  const auto held = held_by({{"a", whole_state()}});
  const std::vector<WantedState> wanted = {{"b", describe(whole_state(), "b", -1)}};
  for (const uint64_t chunk : {8u, 100u, 1000u}) {
    const auto plan = plan_relay(held, wanted, chunk);
    expect_whole(plan, held, wanted);
    for (const auto& transfer : plan.transfers) {
      EXPECT_LE(static_cast<uint64_t>(transfer.box.numel()) * 4, std::max<uint64_t>(chunk, 4));
    }
  }
}

// From three parts to two, and to four, of which each begins and ends within a row.
TEST(RelayPlanTest, PartsBecomeOtherParts) {
  const auto part_of = [](int64_t index, int64_t count) {
    const int64_t total = kRows * kColumns, first = total * index / count;
    return part_state(first, total * (index + 1) / count - first);
  };
  const auto held = held_by({{"a", part_of(0, 7)},
                             {"b", part_state(34, 103)},
                             {"c", part_state(137, kRows * kColumns - 137)}});
  for (const int64_t count : {2, 4}) {
    std::vector<WantedState> wanted;
    for (int64_t i = 0; i < count; ++i) {
      const std::string worker(1, static_cast<char>('a' + i));
      wanted.push_back({worker, describe(part_of(i, count), worker, -1)});
    }
    const auto plan = plan_relay(held, wanted);
    expect_whole(plan, held, wanted);
    EXPECT_TRUE(plan.missing.empty());
    EXPECT_LT(plan.bytes, 240u * 12 + 28 * static_cast<uint64_t>(count));
  }
}

TEST(RelayPlanTest, WhatNobodyHoldsIsMissing) {
  const auto held = held_by({{"a", part_state(0, 80)}, {"c", part_state(160, 80)}});
  const std::vector<WantedState> wanted = {{"a", describe(part_state(0, 120), "a", -1)},
                                           {"c", describe(part_state(120, 120), "c", -1)}};
  const auto plan = plan_relay(held, wanted);
  expect_whole(plan, held, wanted);
  int64_t missing = 0;
  for (const auto& transfer : plan.missing) missing += transfer.box.numel();
  EXPECT_EQ(missing, 2 * 80);
  EXPECT_TRUE(bytes_by_giver(plan).empty());
  EXPECT_EQ(plan_relay({}, wanted).transfers.size(), 0u);
}

TEST(RelayPlanTest, AnotherModelIsRefused) {
  const auto held = held_by({{"a", whole_state()}});
  auto other = whole_state();
  other.model["vector"] = at::zeros({8});
  try {
    plan_relay(held, {{"b", describe(other, "b", -1)}});
    ADD_FAILURE() << "planned";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model 'vector': of shape [7] with the members of the "
                                        "run, and [8] with worker b"));
  }
}

}  // namespace
}  // namespace fovea::elastic
