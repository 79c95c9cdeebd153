#include "fovea/checkpoint/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "fovea/core/error.h"
#include "fovea/files/safetensors.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  Store open(int64_t keep = 3, bool async = true) {
    return Store(folder_.path(),
                 {.keep = keep, .async = async, .warn = [this](const std::string& message) {
                    warnings_.push_back(message);
                  }});
  }
  void save_steps(const std::vector<int64_t>& steps) {
    auto store = open(100);
    for (const int64_t step : steps) store.save(step, state_of(step), false);
    store.wait();
  }
  fs::path step_folder(const std::string& step) const { return folder_.file("step_" + step); }
  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      result.insert(entry.path().filename().string());
    }
    return result;
  }

  TempDir folder_;
  std::vector<std::string> warnings_;
};

TEST_F(StoreTest, LoadsTheNewestOfWhatItSaved) {
  EXPECT_FALSE(open().load_latest().has_value());
  save_steps({1, 20, 3});
  const auto found = open().load_latest();
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(is_state_of(*found, 20));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(StoreTest, ALabelEndsTheFoldersName) {
  {
    auto store = open(2);
    store.save(1, state_of(1), true, "loss_2.500");
    store.save(2, state_of(2), false, "loss_nan");
    store.save(3, state_of(3), false);
    store.wait();
  }
  EXPECT_EQ(names(), (std::set<std::string>{"step_00000001_loss_2.500", "step_00000002_loss_nan",
                                            "step_00000003", "latest", "best"}));
  EXPECT_THAT(open().steps(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(is_state_of(*open().load_latest(), 3));
  EXPECT_THAT(open().weights_file("best"), HasSubstr("step_00000001_loss_2.500/ema-"));
}

TEST_F(StoreTest, AStepSavedAgainUnderAnotherLabelStandsOnce) {
  auto store = open(3);
  store.save(1, state_of(1), true, "loss_2.500");
  store.save(1, state_of(1), false);
  store.wait();
  EXPECT_EQ(names(), (std::set<std::string>{"step_00000001", "latest", "best"}));
  EXPECT_EQ(read_bytes(folder_.file("best")), "step_00000001\n");
}

TEST_F(StoreTest, HasTheFilesThatItsHeaderNames) {
  auto store = open();
  store.save(1000, state_of(1000), true);
  store.wait();
  EXPECT_EQ(names(), (std::set<std::string>{"step_00001000", "latest", "best"}));
  EXPECT_EQ(read_bytes(folder_.file("latest")), "step_00001000\n");
  const auto file = SafetensorsFile::open((step_folder("00001000") / "ema-00000.safetensors"));
  ASSERT_NE(file.find("bias"), nullptr);  // not averaged, but part of the weights
  EXPECT_EQ(file.entries().size(), 2u);
}

TEST_F(StoreTest, KeepsAllDtypesAndShapes) {
  State state;
  const std::vector<at::ScalarType> dtypes = {at::kDouble,   at::kFloat, at::kHalf,
                                              at::kBFloat16, at::kLong,  at::kInt,
                                              at::kChar,     at::kByte,  at::kBool};
  for (const auto dtype : dtypes) {
    state.model[std::string("odd ") + c10::toString(dtype)] = at::full({3, 1}, 1, dtype);
  }
  state.model["number"] = at::full({}, 2.5);
  state.model["nothing"] = at::full({0, 4}, 0);
  state.model["transposed"] = at::full({2, 3}, 1.0).t();
  state.model["\"quoted\"\n"] = at::full({1}, 7.0);
  auto store = open();
  store.save(1, state, false);
  const auto found = store.load_latest();
  ASSERT_EQ(found->model.size(), state.model.size());
  for (const auto& [name, tensor] : state.model) {
    EXPECT_EQ(found->model.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(found->model.at(name).equal(tensor)) << name;
  }
  EXPECT_TRUE(found->optimizer.empty());
}

TEST_F(StoreTest, SavesWhatTheStateHeldWhenAsked) {
  auto store = open();
  const auto state = state_of(1, 20000);
  store.save(1, state, false);
  for (const auto& [name, tensor] : state.model) tensor.fill_(9);
  EXPECT_TRUE(is_state_of(*store.load_latest(), 1, 20000));
}

TEST_F(StoreTest, KeepsTheNewestAndTheBest) {
  auto store = open(2);
  for (int64_t step = 1; step <= 6; ++step) store.save(step, state_of(step), step == 2);
  store.wait();
  EXPECT_THAT(store.steps(), ElementsAre(2, 5, 6));
  EXPECT_EQ(store.weights_file("best"), (step_folder("00000002") / "ema-00000.safetensors"));
  EXPECT_EQ(store.weights_file("latest"), (step_folder("00000006") / "ema-00000.safetensors"));
}

TEST_F(StoreTest, ReplacesACheckpointOfTheSameStep) {
  save_steps({5});
  auto store = open();
  auto state = state_of(5);
  state.scalars["step"] = 55;
  store.save(5, state, false);
  EXPECT_EQ(store.load_latest()->scalars.at("step"), 55);
  EXPECT_EQ(names(), (std::set<std::string>{"step_00000005", "latest"}));
}

TEST_F(StoreTest, DamagedOnesAreNamedAndNotCounted) {
  save_steps({1, 2, 3, 4});
  for (const auto* step : {"00000003", "00000004"}) {
    fs::resize_file(step_folder(step) / "model-00000.safetensors", 100);
  }
  auto store = open(2);
  EXPECT_TRUE(is_state_of(*store.load_latest(), 2));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_THAT(warnings_[0], HasSubstr("step_00000004"));
  EXPECT_THAT(warnings_[0], HasSubstr("model-00000.safetensors: found 100 bytes, expected"));
  store.save(3, state_of(3), false);
  store.wait();
  EXPECT_THAT(store.steps(), ElementsAre(2, 3, 4));  // two whole ones, and the damaged one
  EXPECT_TRUE(is_state_of(*open().load_latest(), 3));
}

TEST_F(StoreTest, AllDamagedIsAnError) {
  save_steps({1, 2});
  for (const auto* step : {"00000001", "00000002"}) fs::remove(step_folder(step) / "manifest.json");
  try {
    open().load_latest();
    FAIL() << "damaged checkpoints were accepted";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("none of the 2 checkpoints is whole"));
    EXPECT_THAT(error.what(), HasSubstr("step_00000001"));
  }
}

TEST_F(StoreTest, FindsAFlippedBitInAnyRegionOfAnyFile) {
  save_steps({1, 2});
  int64_t flips = 0;
  for (const auto& entry : fs::directory_iterator(step_folder("00000002"))) {
    const auto bytes = read_bytes(entry.path());
    const size_t stride = std::max<size_t>(1, bytes.size() / 25);
    for (size_t at = 0; at < bytes.size(); at += stride, ++flips) {
      auto damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      write_bytes(entry.path(), damaged);
      warnings_.clear();
      const auto found = open().load_latest();
      // A space of the manifest may change into another one; then nothing is lost.
      if (is_state_of(*found, 2) && entry.path().filename() == "manifest.json") continue;
      ASSERT_TRUE(is_state_of(*found, 1)) << entry.path() << " byte " << at;
      ASSERT_EQ(warnings_.size(), 1u);
      EXPECT_THAT(warnings_[0], HasSubstr("step_00000002"));
      EXPECT_THAT(warnings_[0], HasSubstr(entry.path().filename().string()));
    }
    write_bytes(entry.path(), bytes);
  }
  EXPECT_GE(flips, 100);
  EXPECT_TRUE(is_state_of(*open().load_latest(), 2));
}

TEST_F(StoreTest, FindsFilesThatAreCutLongerOrGone) {
  save_steps({1, 2});
  for (const auto& entry : fs::directory_iterator(step_folder("00000002"))) {
    const auto bytes = read_bytes(entry.path());
    for (const auto& damaged :
         {bytes.substr(0, bytes.size() - 2), bytes.substr(0, 4), std::string(), bytes + "x"}) {
      write_bytes(entry.path(), damaged);
      EXPECT_TRUE(is_state_of(*open().load_latest(), 1)) << entry.path() << damaged.size();
    }
    fs::remove(entry.path());
    EXPECT_TRUE(is_state_of(*open().load_latest(), 1)) << entry.path();
    write_bytes(entry.path(), bytes);
  }
  EXPECT_TRUE(is_state_of(*open().load_latest(), 2));
}

TEST_F(StoreTest, LeftoversOfACrashAreNoCheckpointsAndGo) {
  save_steps({1});
  fs::copy(step_folder("00000001"), folder_.file(".tmp-step_00000002"));
  write_bytes(folder_.file("latest.a1b2c3"), "step_0000");
  fs::remove(folder_.file("latest"));
  auto store = open();
  EXPECT_TRUE(is_state_of(*store.load_latest(), 1));
  store.save(3, state_of(3), false);
  store.wait();
  EXPECT_EQ(names(), (std::set<std::string>{"step_00000001", "step_00000003", "latest"}));
}

TEST_F(StoreTest, WeightsOfADamagedOrMissingCheckpointAreRefused) {
  EXPECT_THROW(open().weights_file("latest"), CheckpointError);
  save_steps({1});
  EXPECT_THROW(open().weights_file("best"), CheckpointError);
  const auto file = step_folder("00000001") / "ema-00000.safetensors";
  auto bytes = read_bytes(file);
  bytes.back() ^= 1;
  write_bytes(file, bytes);
  EXPECT_THROW(open().weights_file("latest"), CheckpointError);
  EXPECT_THROW(open().weights_file("newest"), Error);
  write_bytes(folder_.file("best"), "step_00000086\n");
  try {
    open().weights_file("best");
    ADD_FAILURE() << "took a name of nothing";
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("/best: found step_00000086"), HasSubstr("not there")));
  }
}

// A wait for who writes into a pipe would last for ever; the alarm ends it.
TEST_F(StoreTest, APipeIsRefusedWhereAFileBelongs) {
  alarm(60);
  save_steps({1, 2});
  for (const auto* name : {"manifest.json", "model-00000.safetensors"}) {
    const auto path = step_folder("00000002") / name;
    const auto bytes = read_bytes(path);
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_TRUE(is_state_of(*open().load_latest(), 1)) << name;
    fs::remove(path);
    write_bytes(path, bytes);
  }
  // Pointers are for people: damage there costs a warning.
  for (const auto* name : {"latest", "best"}) {
    fs::remove(folder_.file(name));
    ASSERT_EQ(mkfifo(folder_.file(name).c_str(), 0600), 0);
  }
  EXPECT_THROW(open().weights_file("latest"), CheckpointError);
  auto store = open();
  EXPECT_TRUE(is_state_of(*store.load_latest(), 2));
  store.save(3, state_of(3), true);
  store.wait();
  EXPECT_EQ(read_bytes(folder_.file("best")), "step_00000003\n");
  alarm(0);
}

TEST_F(StoreTest, AFolderThatCannotBeLookedThroughIsNotAnEmptyOne) {
  const auto path = folder_.file("circle");
  fs::create_symlink(path, path);
  EXPECT_THROW(Store(path).load_latest(), CheckpointError);
}

TEST_F(StoreTest, AHostilePointerLeadsNowhere) {
  save_steps({1});
  write_bytes(folder_.file("latest"), "../../etc\n");
  EXPECT_THROW(open().weights_file("latest"), CheckpointError);
}

}  // namespace
}  // namespace fovea::checkpoint
