// Manifests whose checksum fits and whose contents are wrong.
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <limits>
#include <thread>
#include <vector>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Pointer = json::json_pointer;

// Every value in it, from the outside inwards.
void add_places(const json& value, const Pointer& place, std::vector<Pointer>& places) {
  if (!place.empty()) places.push_back(place);
  if (value.is_object()) {
    for (const auto& item : value.items()) add_places(item.value(), place / item.key(), places);
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) add_places(value[i], place / i, places);
  }
}

const std::vector<json>& hostile_values() {
  static const std::vector<json> values = {nullptr,
                                           0,
                                           -1,
                                           int64_t{1} << 40,
                                           std::numeric_limits<int64_t>::max(),
                                           1e300,
                                           "",
                                           "I4",
                                           "F64",
                                           "model-00001.safetensors",
                                           json::array(),
                                           json::object(),
                                           json::array({0, int64_t{1} << 62}),
                                           json::array({json::object(), "x"})};
  return values;
}

class ForgedTest : public testing::Test {
 protected:
  // Two steps; each tensor of the second in two slices, of two files.
  void SetUp() override {
    Store(folder_.path(), {.async = false}).save(1, values_of(1), false);
    save_in_parts(2);
    const auto text = read_bytes(manifest_path());
    good_ = json::parse(text).at("manifest");
  }

  static State values_of(int64_t step) {
    State state;
    state.model = {{"w", at::arange(8.0).view({4, 2}).add(step)}, {"b", at::arange(4.0).add(step)}};
    state.ema = {{"w", state.model.at("w").mul(-1)}};
    state.scalars = {{"step", step}};
    return state;
  }

  void save_in_parts(int64_t step) const {
    std::barrier meeting(2);
    const auto save = [&](int64_t writer) {
      const auto whole = values_of(step);
      State half;
      half.scalars = whole.scalars;
      for (const auto& [name, tensor] : whole.model) {
        const auto count = tensor.numel() / 2;
        half.model[name] = tensor.reshape({-1}).narrow(0, writer * count, count);
        half.parts["model"][name] = {tensor.sizes().vec(), writer * count};
      }
      if (writer == 0) half.ema = whole.ema;
      Store store(folder_.path(), {.async = false,
                                   .writer = writer,
                                   .num_writers = 2,
                                   .barrier = [&] { meeting.arrive_and_wait(); },
                                   .patience = 20});
      store.save(step, half, false);
    };
    std::thread other(save, 1);
    save(0);
    other.join();
  }

  std::filesystem::path manifest_path() const {
    return folder_.file("step_00000002/manifest.json");
  }

  // What a start finds; the manifest of step 2 has these contents.
  State load_with(const json& contents) {
    write_bytes(manifest_path(), signed_manifest(contents));
    warnings_.clear();
    auto found =
        Store(folder_.path(), {.warn = [this](const auto& text) { warnings_.push_back(text); }})
            .load_latest();
    return *std::move(found);
  }

  const TempDir folder_;
  json good_;
  std::vector<std::string> warnings_;
};

bool is_part_of(const TensorMap& found, const TensorMap& saved) {
  return std::all_of(found.begin(), found.end(), [&](const auto& item) {
    const auto tensor = saved.find(item.first);
    return tensor != saved.end() && item.second.equal(tensor->second);
  });
}

TEST_F(ForgedTest, EachValueReplacedIsRefusedOrChangesNoTensor) {
  const auto first = values_of(1), second = values_of(2);
  ASSERT_EQ(load_with(good_).model.size(), 2u);
  std::vector<Pointer> places;
  add_places(good_, Pointer(), places);
  int64_t refused = 0, accepted = 0;
  for (const auto& place : places) {
    for (const auto& value : hostile_values()) {
      auto contents = good_;
      contents[place] = value;
      if (contents == good_) continue;
      const auto said = place.to_string() + " = " + value.dump();
      const auto found = load_with(contents);
      if (warnings_
              .empty()) {  // fewer tensors, which who asked for them finds out; no other values
        accepted += 1;
        EXPECT_TRUE(is_part_of(found.model, second.model)) << said;
        continue;
      }
      refused += 1;
      EXPECT_THAT(warnings_.at(0), HasSubstr("step_00000002")) << said;
      EXPECT_TRUE(found.model.at("w").equal(first.model.at("w"))) << said;
      EXPECT_EQ(found.scalars, first.scalars) << said;
    }
  }
  std::cout << "  " << refused << " forgeries refused, " << accepted << " without effect\n";
  EXPECT_GT(refused, 1200);
  EXPECT_LT(accepted, refused / 5);
}

// As many elements as there should be, twice the same ones.
TEST_F(ForgedTest, ASliceInTheOthersPlaceIsRefused) {
  for (const auto* name : {"w", "b"}) {
    auto contents = good_;
    auto& slices = contents["tensors"]["model"][name]["slices"];
    ASSERT_EQ(slices.size(), 2u);
    slices[1] = slices[0];
    load_with(contents);
    ASSERT_EQ(warnings_.size(), 1u) << name;
    EXPECT_THAT(warnings_[0], HasSubstr("two of its slices overlap")) << name;
  }
}

TEST_F(ForgedTest, ADtypeThatTensorsDoNotHaveLeavesTheCheckpointBefore) {
  auto contents = good_;
  contents["tensors"]["model"]["w"]["dtype"] = "F4";
  EXPECT_EQ(load_with(contents).scalars.at("step"), 1);
  EXPECT_THAT(warnings_.at(0), HasSubstr("'F4'"));
}

}  // namespace
}  // namespace fovea::checkpoint
