#include "fovea/weights/optimizer_state.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/core/files.h"
#include "fovea/weights/dcp_writer.h"
#include "tests/support/zip_of.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;
using testing::refusal_of;
using testing::TempDir;

std::string moving_file(const std::string& name) { return support::golden_path("moving/" + name); }

TEST(OptimizerStateTest, ReadsTimmsCheckpoint) {
  const auto state = read_optimizer_state(moving_file("timm.pth.tar"));
  EXPECT_EQ(state.place, "optimizer");
  EXPECT_EQ(state.steps, 7);
  EXPECT_TRUE(state.is_by_index());
  EXPECT_EQ(state.optimizer, "adamw");
  EXPECT_EQ(state.slots.at("exp_avg").size(), 33U);
  EXPECT_EQ(state.slots.at("exp_avg_sq").size(), 33U);
  ASSERT_EQ(state.groups.size(), 2U);
  EXPECT_EQ(state.groups[0].params.size(), 23U);
  EXPECT_EQ(state.groups[0].params.back(), "22");
  EXPECT_EQ(state.groups[0].number("weight_decay"), 0);
  EXPECT_EQ(state.groups[1].number("weight_decay"), 0.05);
  EXPECT_EQ(state.groups[1].number("betas.1"), 0.95);
}

TEST(OptimizerStateTest, ReadsFolders) {
  for (const auto& [name, place, groups] :
       std::vector<std::tuple<std::string, std::string, size_t>>{
           {"dcp", "optimizer", 2}, {"dcp_flat", "app.optim", 2}, {"bionemo", "optimizer", 1}}) {
    const auto state = read_optimizer_state(moving_file(name));
    EXPECT_EQ(state.place, place);
    EXPECT_EQ(state.steps, 7) << name;
    EXPECT_EQ(state.groups.size(), groups) << name;
    EXPECT_EQ(state.is_by_index(), name == "bionemo");
    EXPECT_EQ(state.groups.front().number("eps"), 1e-4) << name;
  }
  EXPECT_EQ(read_optimizer_state(moving_file("bionemo")).groups[0].params.size(),
            read_optimizer_state(moving_file("bionemo")).slots.at("exp_avg").size());
  // The groups of a flattened state are found again, in the order of the parameters.
  const auto whole = read_optimizer_state(moving_file("dcp")),
             flat = read_optimizer_state(moving_file("dcp_flat"));
  for (size_t g = 0; g < 2; ++g) {
    const auto find = [&](const OptimizerState& state) {
      for (const auto& group : state.groups)
        if (group.number("weight_decay") == (g == 0 ? 0 : 0.05)) return group.params;
      return std::vector<std::string>();
    };
    EXPECT_EQ(find(whole), find(flat));
    EXPECT_FALSE(find(whole).empty());
  }
}

// A pickle by hand: {"state": {key: {moment: tensor or number}}, "param_groups": [{...}]}.
class OptimizerPickle {
 public:
  struct Entry {
    std::string key = "K\0"s;  // the opcode of 0
    bool has_first = true, has_second = true;
    std::string step = "K\x03";  // 3
    int elements = 2;
    std::string second_name = "exp_avg_sq";
  };

  static std::string text(const std::string& value) {
    return "X"s + static_cast<char>(value.size()) + "\0\0\0"s + value;
  }
  static std::string tensor(int elements) {
    const auto size = "K"s + static_cast<char>(elements) + "\x85";
    return "ctorch._utils\n_rebuild_tensor_v2\n(("s + text("storage") + "ctorch\nFloatStorage\n" +
           text("0") + text("cpu") + "K\x02tQK\0"s + size + "K\x01\x85\x89" +
           "ccollections\nOrderedDict\n)RtR";
  }
  static std::string entry(const Entry& entry) {
    auto dict = entry.key + "}(";
    if (!entry.step.empty()) dict += text("step") + entry.step;
    if (entry.has_first) dict += text("exp_avg") + tensor(2);
    if (entry.has_second) dict += text(entry.second_name) + tensor(entry.elements);
    return dict + "u";
  }
  static std::string group(const std::string& params, const std::string& more = "") {
    return "}("s + text("params") + "](" + params + "e" + text("amsgrad") + "\x89" + text("lr") +
           "G\x3f\x50\x62\x4d\xd2\xf1\xa9\xfc" + more + "u";
  }
  static std::string file(const TempDir& folder, const std::string& entries,
                          const std::string& groups) {
    const auto pickle = "\x80\x02}("s + text("optimizer") + "}(" + text("state") + "}(" + entries +
                        "u" + text("param_groups") + "](" + groups + "e" + "uu.";
    const std::string numbers("\0\0\0\0\0\0\x80\x3f", 8);  // 0 and 1
    return folder.write(
        "o.pt",
        support::stored_zip({{"a/data.pkl", pickle}, {"a/version", "3\n"}, {"a/data/0", numbers}}));
  }
};

class OptimizerFaultTest : public ::testing::Test {
 protected:
  using P = OptimizerPickle;
  std::string fault(const std::string& entries, const std::string& groups = P::group("K\0"s)) {
    return refusal_of([&] { read_optimizer_state(P::file(folder_, entries, groups)); });
  }
  TempDir folder_;
};

TEST_F(OptimizerFaultTest, OneClearErrorEach) {
  EXPECT_EQ(fault(P::entry({})), "nothing was refused");
  EXPECT_THAT(fault(P::entry({.key = "K\x05"})),
              HasSubstr("parameter 5, which none of its groups"));
  EXPECT_THAT(fault(P::entry({}), P::group("K\0"s) + P::group("K\0"s)),
              HasSubstr("parameter 0 is in two groups"));
  EXPECT_THAT(fault(P::entry({.step = ""})), HasSubstr("0 has moments, but no step"));
  EXPECT_THAT(fault(P::entry({.step = "K\0"s})), HasSubstr("has taken 0 steps"));
  EXPECT_THAT(
      fault(P::entry({}) + P::entry({.key = "K\x01", .step = "K\x04"}), P::group("K\0K\x01"s)),
      HasSubstr("0 has taken 3 steps, but 1 4"));
  EXPECT_THAT(fault(P::entry({.has_second = false})), HasSubstr("no exp_avg_sq"));
  EXPECT_THAT(fault(P::entry({.has_first = false})), HasSubstr("no exp_avg"));
  EXPECT_THAT(fault(P::entry({.elements = 1})), HasSubstr("exp_avg is [2], but exp_avg_sq [1]"));
  EXPECT_THAT(fault(P::entry({.second_name = "momentum_buffer"})),
              HasSubstr("another one than AdamW"));
  EXPECT_THAT(fault(P::entry({.second_name = "max_exp_avg_sq"})), HasSubstr("max_exp_avg_sq"));
  EXPECT_THAT(fault(""), HasSubstr("it has not taken a step"));
  EXPECT_THAT(fault(P::entry({}), ""), HasSubstr("no param_groups"));
  const auto key = [](const std::string& name, const std::string& value) {
    return P::text(name) + value;
  };
  EXPECT_THAT(fault(P::entry({}), P::group("K\0"s, key("amsgrad", "\x88"))), HasSubstr("amsgrad"));
  EXPECT_THAT(fault(P::entry({}), P::group("K\0"s, key("decoupled_weight_decay", "\x89") +
                                                       key("weight_decay", "K\x01"))),
              HasSubstr("L2"));
  EXPECT_THAT(fault(P::entry({}), "}("s + key("params", "](K\0e"s) + key("lr", "K\x01") + "u"),
              HasSubstr("have the keys lr, which are of no optimizer here; expected those of AdamW "
                        "(amsgrad), SGD"));
}

TEST_F(OptimizerFaultTest, NothingIsRun) {
  const auto system = "cos\nsystem\n" + P::text("touch owned") + "\x85R";
  EXPECT_THAT(fault(P::entry({.step = system})), HasSubstr("os.system, which is refused"));
  EXPECT_THAT(fault(P::entry({}), P::group("K\0"s, P::text("lr") + system)),
              HasSubstr("os.system, which is refused"));
}

// A negative second moment: the two were swapped.
TEST_F(OptimizerFaultTest, SwappedMomentsAreSeen) {
  const auto first = at::full({2}, -0.5), second = at::ones({2});
  write_dcp_folder(folder_.file("swapped"),
                   {{"optimizer.state.norm.weight.exp_avg", second},
                    {"optimizer.state.norm.weight.exp_avg_sq", first},
                    {"optimizer.state.norm.weight.step", at::ones({})}},
                   "");
  EXPECT_THAT(refusal_of([&] { read_optimizer_state(folder_.file("swapped")); }),
              HasSubstr("exp_avg_sq has values below 0"));
}

TEST_F(OptimizerFaultTest, TruncatedFilesAndFolders) {
  const auto bytes = read_file(moving_file("timm.pth.tar"), 1 << 20);
  for (const size_t size : {size_t{0}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(folder_.file("cut.pt"), std::ios::binary) << bytes.substr(0, size);
    EXPECT_THROW(read_optimizer_state(folder_.file("cut.pt")), DataError) << size;
  }
  EXPECT_THAT(refusal_of([&] { read_optimizer_state(folder_.file("")); }),
              HasSubstr("without .metadata"));
  for (const auto* name : {".metadata", "__0_0.distcp"})
    std::filesystem::copy_file(moving_file("dcp") + "/" + name, folder_.file(name));
  std::filesystem::resize_file(folder_.file("__0_0.distcp"), 1000);
  EXPECT_THROW(read_optimizer_state(folder_.file("")), DataError);
}

TEST(OptimizerTensorTest, ToldFromWeightsByName) {
  for (const auto* name : {"optimizer.state.0.exp_avg", "state.blocks.0.norm1.weight.step",
                           "app.optim.state.cls_token.exp_avg_sq", "o.state.3.momentum_buffer"})
    EXPECT_TRUE(is_optimizer_tensor(name)) << name;
  for (const auto* name : {"blocks.0.attn.qkv.weight", "state_dict.norm.weight",
                           "optimizer.exp_avg", "state.exp_avg", "state.weight", "step"})
    EXPECT_FALSE(is_optimizer_tensor(name)) << name;
}

}  // namespace
}  // namespace fovea::weights
