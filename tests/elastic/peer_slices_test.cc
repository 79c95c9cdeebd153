#include "fovea/elastic/peer_slices.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

using parallel::Interrupt;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

checkpoint::State held_state() {
  checkpoint::State state;
  state.model["whole"] = at::arange(12, at::kFloat).view({3, 4});
  state.model["part"] = at::arange(10, at::kBFloat16);  // elements [3, 13) of 5 x 4
  state.parts["model"]["part"] = {.shape = {5, 4}, .first = 3};
  state.ema["number"] = at::full({}, 7, at::kDouble);
  return state;
}

class PeerSlicesTest : public ::testing::Test {
 protected:
  PeerPlace place(const std::string& secret = "between us") const {
    return {.worker = "w1", .address = "127.0.0.1", .port = server_.port(), .secret = secret};
  }
  PeerSlices ask(std::vector<PeerSlices::Wanted> wanted, const std::string& secret = "between us") {
    return {place(secret), std::move(wanted), Clock::now() + std::chrono::seconds(60), end_};
  }
  std::string refusal_of(const PeerSlices::Wanted& wanted, const std::string& secret) {
    try {
      ask({wanted}, secret).read(wanted.slice.key());
    } catch (const Error& error) {
      return error.what();
    }
    return "it came";
  }

  checkpoint::State held_ = held_state();
  SliceServer server_{held_, "127.0.0.1", false, "between us"};
  std::shared_ptr<Interrupt> end_ = std::make_shared<Interrupt>();
};

TEST_F(PeerSlicesTest, ComeInTheirOrder) {
  const std::vector<PeerSlices::Wanted> wanted = {
      {{"model", "whole", {.offset = {1, 1}, .size = {2, 2}}}, at::kFloat},
      {{"ema", "number", {.offset = {}, .size = {}}}, at::kDouble},
      {{"model", "part", {.offset = {1, 0}, .size = {2, 4}}}, at::kBFloat16},
      {{"model", "whole", {.offset = {0, 0}, .size = {3, 4}}}, at::kFloat}};
  auto source = ask(wanted);
  const auto read = [&](size_t i) { return source.read(wanted[i].slice.key()); };
  EXPECT_TRUE(read(0).equal(held_.model["whole"].narrow(0, 1, 2).narrow(1, 1, 2)));
  EXPECT_EQ(read(1).item<double>(), 7);
  EXPECT_TRUE(read(2).flatten().equal(held_.model["part"].narrow(0, 1, 8)));
  EXPECT_TRUE(read(3).equal(held_.model["whole"]));
  EXPECT_EQ(source.bytes_read(), 4u * 4 + 8 + 8 * 2 + 12 * 4);
}

TEST_F(PeerSlicesTest, WhatIsNotThereDoesNotCome) {
  using Offsets = std::vector<int64_t>;
  const auto of_part = [](Offsets offset, Offsets size) {
    return PeerSlices::Wanted{{"model", "part", {std::move(offset), std::move(size)}},
                              at::kBFloat16};
  };
  for (const auto& wanted :
       {of_part({0, 0}, {1, 4}), of_part({3, 0}, {1, 4}), of_part({1}, {1}),
        of_part({1, -1}, {1, 2}), of_part({1, 3}, {1, int64_t{1} << 62}),
        PeerSlices::Wanted{{"optimizer", "whole", {{0, 0}, {1, 1}}}, at::kFloat}}) {
    if (wanted.slice.box.numel() > 1000) continue;  // no memory for it here
    EXPECT_THAT(refusal_of(wanted, "between us"),
                HasSubstr(fmt::format("worker w1 at 127.0.0.1:{}: '{}' of the state did not come",
                                      server_.port(), wanted.slice.name)));
  }
  const PeerSlices::Wanted whole{{"model", "whole", {{0, 0}, {3, 4}}}, at::kFloat};
  EXPECT_THAT(refusal_of(whole, "guessed"), HasSubstr("its part of the state cannot be had"));
  EXPECT_EQ(refusal_of(whole, "between us"), "it came");
}

TEST_F(PeerSlicesTest, AnInterruptEndsTheWaitForOneThatIsSilent) {
  const auto listeners =
      parallel::listen_at("127.0.0.1", 0, false, Clock::now() + std::chrono::seconds(60));
  auto heard = std::async(std::launch::async, [&] {
    try {
      PeerSlices({.worker = "w2", .address = "127.0.0.1", .port = listeners.front().port()}, {},
                 Clock::now() + std::chrono::seconds(60), end_);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it answered");
  });
  EXPECT_EQ(heard.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  end_->fire("the mesh changes");
  EXPECT_THAT(heard.get(), HasSubstr("worker w2 at 127.0.0.1"));
}

}  // namespace
}  // namespace fovea::elastic
