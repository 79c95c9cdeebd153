// Checkpoints that several processes write together; here each is a thread.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

State whole_state() {
  State state;
  state.model = {{"weight", at::arange(35, at::kFloat).view({5, 7})},
                 {"bias", at::arange(3, at::kFloat)},
                 {"frozen", at::full({2}, 4.0)}};
  state.optimizer = {{"exp_avg/weight", at::arange(35, at::kFloat).view({5, 7}) + 0.5},
                     {"row_var/weight", at::full({5, 1}, 2.0)}};
  state.ema = {{"weight", at::arange(35, at::kFloat).view({5, 7}) * 2},
               {"bias", at::arange(3, at::kFloat) * 2}};
  state.scalars = {{"step", 4}};
  return state;
}

// What writer `rank` of `count` has: cuts of the weight anywhere, the bias at one of them.
State state_of_writer(int64_t rank, int64_t count) {
  const auto whole = whole_state();
  State state;
  state.scalars = whole.scalars;
  const auto take = [&](const TensorMap& from, TensorMap& to, const std::string& part) {
    for (const auto& [name, tensor] : from) {
      if (name.ends_with("bias") || tensor.numel() == 35) {
        const auto total = tensor.numel();
        const int64_t begin = total * rank / count, end = total * (rank + 1) / count;
        to[name] = tensor.reshape({-1}).narrow(0, begin, end - begin);
        state.parts[part][name] = {tensor.sizes().vec(), begin};
      } else if (rank == 0) {
        to[name] = tensor;
      }
    }
  };
  take(whole.model, state.model, "model");
  take(whole.optimizer, state.optimizer, "optimizer");
  take(whole.ema, state.ema, "ema");
  return state;
}

void save_together(const std::string& folder, int64_t count, int64_t step) {
  std::barrier meeting(count);
  std::vector<std::thread> writers;
  for (int64_t rank = 0; rank < count; ++rank) {
    writers.emplace_back([&, rank] {
      Store store(folder, {.async = false,
                           .warn = [](const std::string&) {},
                           .writer = rank,
                           .num_writers = count,
                           .barrier = [&] { meeting.arrive_and_wait(); },
                           .patience = 20});
      store.save(step, state_of_writer(rank, count), /*is_best=*/true);
    });
  }
  for (auto& writer : writers) writer.join();
}

void expect_whole(const State& state) {
  const auto expected = whole_state();
  const auto same = [](const TensorMap& a, const TensorMap& b) {
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [name, tensor] : b) EXPECT_TRUE(a.at(name).equal(tensor)) << name;
  };
  same(state.model, expected.model);
  same(state.optimizer, expected.optimizer);
  same(state.ema, expected.ema);
  EXPECT_EQ(state.scalars, expected.scalars);
}

TEST(SeveralWritersTest, APartEachAndOneManifest) {
  for (const int64_t count : {2, 3, 8}) {
    const TempDir folder;
    save_together(folder.path(), count, 4);
    Store reader(folder.path());
    expect_whole(*reader.load_latest());
    const auto checkpoint = folder.path() + "/step_00000004";
    EXPECT_TRUE(fs::exists(checkpoint + fmt::format("/model-{:05d}.safetensors", count - 1)));
    EXPECT_FALSE(fs::exists(checkpoint + "/manifest-1.json"));
    const auto file = reader.weights_file("best");
    EXPECT_EQ(fs::path(file).filename(), "ema.safetensors");
    EXPECT_EQ(fs::file_size(reader.weights_file("latest")), fs::file_size(file));
  }
}

TEST(SeveralWritersTest, AMissingOrChangedPartIsNamedAndTheOneBeforeIsUsed) {
  const TempDir folder;
  save_together(folder.path(), 3, 4);
  save_together(folder.path(), 3, 5);
  const fs::path newest = folder.path() + "/step_00000005";
  fs::remove(newest / "optimizer-00001.safetensors");
  std::vector<std::string> warnings;
  Store reader(folder.path(), {.warn = [&](const std::string& text) { warnings.push_back(text); }});
  expect_whole(*reader.load_latest());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], AllOf(HasSubstr("step_00000005"), HasSubstr("optimizer-00001")));
  auto bytes = read_bytes(folder.path() + "/step_00000004/model-00002.safetensors");
  bytes.back() ^= 1;
  write_bytes(folder.path() + "/step_00000004/model-00002.safetensors", bytes);
  try {
    reader.load_latest();
    FAIL() << "a damaged part was read";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("model-00002.safetensors: its checksum does not fit"));
  }
}

TEST(SeveralWritersTest, AWriterThatFailsIsNamedAndNothingIsLeft) {
  const TempDir folder;
  save_together(folder.path(), 2, 4);
  std::barrier meeting(2);
  std::vector<std::string> messages(2);
  std::vector<std::thread> writers;
  for (int64_t rank = 0; rank < 2; ++rank) {
    writers.emplace_back([&, rank] {
      Store store(folder.path(),
                  {.async = true,
                   .writer = rank,
                   .num_writers = 2,
                   .barrier =
                       [&, rank] {
                         meeting.arrive_and_wait();
                         // Where the file of the second one should be, something else is.
                         if (rank == 1) {
                           fs::create_directory(folder.path() +
                                                "/.tmp-step_00000005/optimizer-00001.safetensors");
                         }
                       },
                   .patience = 20});
      store.save(5, state_of_writer(rank, 2), false);
      try {
        store.wait();
      } catch (const CheckpointError& error) {
        messages[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_THAT(messages[1], AllOf(HasSubstr("checkpoint of step 5, part 1: "),
                                 HasSubstr("/optimizer-00001.safetensors: cannot be created")));
  EXPECT_THAT(messages[0], AllOf(HasSubstr("process 1 of 2 could not write its part"),
                                 HasSubstr("the checkpoints before it are untouched")));
  EXPECT_FALSE(fs::exists(folder.path() + "/step_00000005"));
  expect_whole(*Store(folder.path()).load_latest());
}

// The second process is lost before it has saved.
TEST(SeveralWritersTest, ASaveWithoutAllOfThemIsDroppedWhenOneIsLost) {
  const TempDir folder;
  save_together(folder.path(), 2, 4);
  std::atomic<bool> is_lost = false;
  Store store(folder.path(), {.writer = 0,
                              .num_writers = 2,
                              .barrier = [] {},
                              .others_are_lost = [&] { return is_lost.load(); }});
  store.save(5, state_of_writer(0, 2), false);
  is_lost = true;
  try {
    store.wait();
    ADD_FAILURE() << "saved";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("it is dropped, as process 1 of 2 was lost"));
  }
  EXPECT_FALSE(fs::exists(folder.path() + "/.tmp-step_00000005"));
  expect_whole(*Store(folder.path()).load_latest());
}

}  // namespace
}  // namespace fovea::checkpoint
