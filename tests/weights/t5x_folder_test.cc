// Checkpoints of t5x and arrays of zarr (tools/golden/make_t5x.py).
#include "fovea/weights/t5x_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/core/files.h"
#include "fovea/files/zarr.h"
#include "fovea/weights/moments.h"
#include "fovea/weights/optimizer_state.h"
#include "fovea/weights/read_weights.h"
#include "tests/support/close.h"
#include "tests/support/unpack.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::by_name;
using ::testing::HasSubstr;
using testing::refusal_of;
using namespace std::string_literals;

// Every kind of array that zarr, numcodecs and tensorstore write.
TEST(T5xFolderTest, ArraysAreThoseOfZarr) {
  const support::TempDir folder;
  support::unpack(support::golden_path("moving/zarr.zip"), folder);
  const auto golden = support::load_golden("zarr.safetensors");
  int compared = 0;
  for (const auto& [name, expected] : golden.tensors) {
    const auto path = folder.file(name);
    const auto found = nn::array_tensor(read_zarr(path, read_zarr_header(path)));
    support::expect_same_bits(found, expected, name);
    ++compared;
  }
  std::cout << "  " << compared << " kinds of arrays\n";
  EXPECT_EQ(compared, 17);
  EXPECT_THAT(refusal_of([&] { read_zarr_header(folder.file("blosc")); }), HasSubstr("blosc"));
}

class T5xCheckpointTest : public ::testing::Test {
 protected:
  T5xCheckpointTest() : golden_(support::load_golden("moving_t5x.safetensors")) {}
  void unpack() const { support::unpack(support::golden_path("moving/t5x.zip"), folder_); }
  std::string path() const { return folder_.file("checkpoint_7"); }
  std::string array(const std::string& name) const {
    return path() + "/target.vision_model." + name;
  }
  std::string refusal() const {
    return refusal_of([&] { read_weights(path()); });
  }

  support::TempDir folder_;
  support::Golden golden_;
};

void expect_same(const nn::NamedTensors& found, const support::NamedTensors& golden,
                 const std::string& what) {
  const auto tensors = by_name(found);
  for (const auto& [name, tensor] : golden) {
    ASSERT_TRUE(tensors.contains(name)) << what << " " << name;
    support::expect_same_bits(tensors.at(name).contiguous(), tensor, name);
  }
  EXPECT_EQ(tensors.size(), golden.size()) << what;
  std::cout << "  " << golden.size() << " " << what << " by timm's names\n";
}

TEST_F(T5xCheckpointTest, WeightsAndMomentsAreThoseOfTheRun) {
  unpack();
  const auto weights = read_weights(path());
  EXPECT_EQ(weights.format, "t5x");
  EXPECT_EQ(weights.naming, "rosetta");
  EXPECT_TRUE(weights.report.is_complete()) << weights.report.text();
  EXPECT_THAT(weights.text(), HasSubstr("state/step"));
  expect_same(weights.tensors, golden_.group("before"), "weights");
  const auto moments = read_moments(path(), {.weights = path()});
  EXPECT_EQ(moments.steps, 7);
  EXPECT_EQ(moments.naming, "rosetta");
  EXPECT_EQ(moments.optimizer, "adamw");
  expect_same(moments.slots.at("exp_avg"), golden_.group("before_exp_avg"), "first moments");
  expect_same(moments.slots.at("exp_avg_sq"), golden_.group("before_exp_avg_sq"), "second moments");
}

TEST_F(T5xCheckpointTest, OfARunTheLatestIsTaken) {
  unpack();
  fs::create_directory(folder_.file("checkpoint_10"));  // nothing in it
  fs::copy(path(), folder_.file("checkpoint_6"), fs::copy_options::recursive);
  const auto weights = read_weights(folder_.path());
  EXPECT_THAT(weights.report.notes, ::testing::Contains(HasSubstr("checkpoint_7, the latest")));
  EXPECT_EQ(weights.tensors.size(), golden_.group("before").size());
  EXPECT_FALSE(T5xFolder::is_one(folder_.file("checkpoint_10")));
}

TEST_F(T5xCheckpointTest, DamageNamesTheFile) {
  unpack();
  fs::remove(array("head.bias") + "/.zarray");
  EXPECT_THAT(refusal(), HasSubstr("target.vision_model.head.bias/.zarray"));
  fs::copy(array("VisionTransformer.pre_logits.bias") + "/.zarray",
           array("head.bias") + "/.zarray");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("the shape [6]"), HasSubstr("says [5]")));
}

TEST_F(T5xCheckpointTest, ChunksThatAreCutOffAreRefused) {
  unpack();
  const auto file = array("VisionTransformer.pre_logits.kernel") + "/0.0";
  fs::resize_file(file, fs::file_size(file) - 3);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("pre_logits.kernel/0.0"), HasSubstr("damaged")));
}

TEST_F(T5xCheckpointTest, WhatIsNoCheckpointOfT5xIsSaid) {
  const auto tree = [&](const std::string& bytes) {
    folder_.write("checkpoint_7/checkpoint", bytes);
    return refusal();
  };
  EXPECT_THAT(tree("\x81\xA6params\x80"),
              AllOf(HasSubstr("the keys [params]"), HasSubstr("target")));
  EXPECT_THAT(tree("\x82\xA7version\x04\xA9optimizer\x80"), HasSubstr("version 4"));
  const auto with = [&](const std::string& leaf) {
    return tree("\x81\xA9optimizer\x81\xA6target\x81\xA1w" + leaf);
  };
  EXPECT_THAT(with("\xA1x"), HasSubstr("target/w: a text"));
  EXPECT_THAT(with("\xC7\x08\x01\x93\x91\x02\xA4"
                   "int3"),
              HasSubstr("truncated"));
  EXPECT_THAT(with("\xC7\x0A\x01\x93\x91\x02\xA4int8\xC4\x01"s), HasSubstr("truncated"));
  EXPECT_THAT(with("\xC7\x0B\x01\x93\x91\x02\xA4int8\xC4\x01x"),
              HasSubstr("1 bytes for an array of [2]"));
  EXPECT_THAT(with("\xC7\x0C\x01\x93\x91\x02\xA4int3\xC4\x02xx"), HasSubstr("the dtype int3"));
  EXPECT_THAT(with("\x82\xA6"
                   "driver\xA5zarr3\xA7kvstore\x80"),
              HasSubstr("driver zarr3"));
  EXPECT_THAT(with("\x82\xA6"
                   "driver\xA4zarr\xA7kvstore\x81\xA6"
                   "driver\xA5ocdbt"),
              HasSubstr("tensorstore's ocdbt"));
  EXPECT_THAT(with("\x82\xA6"
                   "driver\xA4zarr\xA7kvstore\x82\xA6"
                   "driver\xA4"
                   "file\xA4path\xA4../x"),
              HasSubstr("\"..\" in its path"));
  EXPECT_THAT(with("\x82\xA6"
                   "driver\xA4zarr\xA7kvstore\x82\xA6"
                   "driver\xA4"
                   "file\xA4path\xA4/etc"),
              HasSubstr("an absolute path"));
}

// Where tensorstore's spec was of another form, and arrays that are in the tree itself.
TEST_F(T5xCheckpointTest, OtherFormsOfALeaf) {
  unpack();
  folder_.write("checkpoint_7/checkpoint",
                "\x81\xA9optimizer\x81\xA6target\x83"
                "\xA1"
                "a\x83\xA6"
                "driver\xA4zarr\xA4path\xB9target.vision_model.head."
                "\xA7kvstore\x81\xA6"
                "driver\xA3gcs"s
                "\xA1"
                "b\xC7\x0B\x01\x93\x91\x01\xA4int8\xC4\x01\x07"s
                "\xA1"
                "c\x83\xB9__msgpack_chunked_array__\xC3\xA5shape\x82\xA1"
                "0\x01\xA1"
                "1\x02"
                "\xA6"
                "chunks\x82"
                "\xA1"
                "0\xC7\x0B\x01\x93\x91\x01\xA4int8\xC4\x01\x08"
                "\xA1"
                "1\xC7\x0B\x01\x93\x91\x01\xA4int8\xC4\x01\x09"s);
  fs::rename(array("head.bias"), path() + "/target.vision_model.head.");
  const T5xFolder folder(path());
  ASSERT_EQ(folder.arrays().size(), 3U);
  EXPECT_EQ(folder.read(folder.arrays()[0]).size(0), 5);
  EXPECT_EQ(folder.read(*folder.find("target/b")).item<int64_t>(), 7);
  const auto chunked = folder.read(*folder.find("target/c"));
  EXPECT_EQ(chunked.sizes(), (at::IntArrayRef{1, 2}));
  EXPECT_EQ(chunked[0][1].item<int64_t>(), 9);
}

TEST_F(T5xCheckpointTest, LaterLayoutsAreRefusedByName) {
  const support::TempDir orbax;
  orbax.write("checkpoint_3/state/manifest.ocdbt", std::string("x"));
  EXPECT_TRUE(T5xFolder::is_one(orbax.path()));
  EXPECT_THAT(refusal_of([&] { read_weights(orbax.path()); }),
              AllOf(HasSubstr("checkpoint_3"), HasSubstr("of Orbax")));
  // TensorFlow's folders have a file of that name too.
  orbax.write("tf/checkpoint", std::string("model_checkpoint_path: \"a\"\n"));
  EXPECT_FALSE(T5xFolder::is_one(orbax.file("tf")));
}

// optax.sgd keeps what torch's SGD keeps, and counts no steps of its own.
TEST_F(T5xCheckpointTest, ATraceIsTheMomentumOfSgd) {
  folder_.write("checkpoint_7/checkpoint",
                "\x81\xA9optimizer\x82\xA6target\x80\xA5state\x82\xA4step\x07"
                "\xACparam_states\x81\xA1"
                "0\x81\xA5trace\x81\xA4head\xC7\x11\x01\x93\x91\x01\xA7"
                "float32\xC4\x04\x00\x00\x00\x40"s);
  const auto state = read_optimizer_state(path());
  EXPECT_EQ(state.optimizer, "sgd");
  EXPECT_EQ(state.steps, 7);
  EXPECT_EQ(state.slots.at("momentum_buffer").at("head").item<float>(), 2);
}

TEST_F(T5xCheckpointTest, AnotherOptimizerIsNamed) {
  folder_.write("checkpoint_7/checkpoint",
                "\x81\xA9optimizer\x82\xA6target\x80\xA5state\x81\xACparam_states\x81\xA4head\x82"
                "\xA5v_row\x01\xA5v_col\x02"s);
  EXPECT_THAT(refusal_of([&] { read_optimizer_state(path()); }), HasSubstr("exp_avg_sq_row"));
  EXPECT_THAT(refusal_of([&] { read_weights(path()); }), HasSubstr("no arrays under \"target\""));
}

}  // namespace
}  // namespace fovea::weights
