// The commands on the pages docs/coming_from_*.md, as they stand there, on a little data.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/data/image/png.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"
#include "tests/support/unpack.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using testing::run_fovea;

constexpr const char* kMark = "<!-- runs in tests/apps/coming_from_test.cc -->";

// The lines of the marked blocks of a page, without the program's name.
std::vector<std::string> commands_of(const std::string& page) {
  std::istringstream text(read_file(FOVEA_SOURCE_DIR "/docs/" + page, 1 << 20));
  std::vector<std::string> commands;
  bool is_marked = false, is_open = false;
  for (std::string line; std::getline(text, line);) {
    if (line == kMark) is_marked = true;
    if (is_marked && line.starts_with("```")) {
      if (is_open) is_marked = false;
      is_open = !is_open;
    } else if (is_open) {
      EXPECT_TRUE(line.starts_with("fovea ")) << line;
      commands.push_back(line.substr(6));
    }
  }
  EXPECT_FALSE(commands.empty()) << page << " has no block of commands behind " << kMark;
  return commands;
}

class ComingFromTest : public ::testing::Test {
 protected:
  ComingFromTest() {
    for (const std::string part : {"train", "val"}) {
      for (const std::string label : {"a", "b"}) write_images(part + "/" + label);
    }
    const fs::path source = FOVEA_SOURCE_DIR;
    const auto options = fs::copy_options::recursive;
    fs::copy(source / "tests/recipe_import/samples", dir_.path(), options);
    for (const auto* name :
         {"ucf_vit.ckpt", "google_augreg.npz", "dinov2_registers.pth", "timm.pth.tar", "dcp"}) {
      fs::copy(source / "tests/golden/weights" / name, fs::path(dir_.path()) / name, options);
    }
    support::unpack((source / "tests/golden/moving/t5x.zip").string(), dir_);
  }

  void write_images(const std::string& folder) const {
    fs::create_directories(dir_.path() + "/images/" + folder);
    for (int i = 0; i < 4; ++i) {
      data::Image image;
      image.height = image.width = 32;
      image.channels = 3;
      for (int p = 0; p < 32 * 32 * 3; ++p) {
        image.pixels.push_back(static_cast<uint8_t>(p * (i + 3) + folder.back()));
      }
      dir_.write(fmt::format("images/{}/{}.png", folder, i), data::encode_png(image));
    }
  }

  // Runs the commands of a page, each in the processes that it names; those that train, or measure
  // it, get `tiny` too.
  void run_page(const std::string& page, const std::string& tiny) const {
    const auto commands = commands_of(page);
    ASSERT_GE(commands.size(), 3u);
    for (const auto& command : commands) {
      const bool measures =
          command.starts_with("profile ") && command.find(".yaml") != command.npos;
      const bool trains = command.starts_with("train ") || measures;
      const auto result =
          run_fovea(trains ? command + " " + tiny : command, fmt::format("cd {} && ", dir_.path()));
      EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.output;
    }
    std::cout << "  " << commands.size() << " commands\n";
  }

  data::testing::TempDir dir_;
};

const std::string kTinyData =
    "data.train.path=images/train data.val.path=images/val data.global_batch_size=4 data.threads=1 "
    "trainer.max_steps=2 trainer.max_epochs=null trainer.micro_batch_size=auto device.type=cpu "
    "schedule.warmup_steps=1 schedule.total_steps=2 init.weights=\"\" ";
const std::string kTinyVit =
    "model.embed_dim=16 model.depth=1 model.num_heads=2 model.num_classes=2 ";

TEST_F(ComingFromTest, Timm) { run_page("coming_from_timm.md", kTinyData + kTinyVit); }

TEST_F(ComingFromTest, Jabas) { run_page("coming_from_jabas.md", kTinyData + kTinyVit); }

TEST_F(ComingFromTest, UcfVit) {
  run_page("coming_from_ucf_vit.md",
           "data.train.path=images/train data.global_batch_size=4 data.threads=1 "
           "trainer.max_steps=2 trainer.max_epochs=null device.type=cpu schedule.warmup_steps=1 "
           "schedule.total_steps=2 model.encoder.embed_dim=16 model.encoder.depth=1 "
           "model.encoder.num_heads=2 model.decoder_embed_dim=16 model.decoder_depth=1 "
           "model.decoder_num_heads=2");
}

TEST_F(ComingFromTest, Rosetta) {
  run_page("coming_from_rosetta.md",
           "data.train.path=shards data.val.path=shards "
           "data.global_batch_size=4 data.threads=1 trainer.max_steps=2 "
           "trainer.micro_batch_size=auto device.type=cpu schedule.warmup_steps=1 "
           "schedule.total_steps=2 model.representation_size=16 " +
               kTinyVit);
}

TEST_F(ComingFromTest, Bionemo) {
  const std::string transforms =
      "transforms: [{name: resize, size: [32, 32]}, {name: normalize, preset: imagenet}]";
  run_page("coming_from_bionemo.md",
           fmt::format("'data.train={{format: folder, path: images/train, {0}}}' "
                       "'data.val={{format: folder, path: images/val, {0}}}' model.img_size=32 "
                       "model.patch_size=8 data.global_batch_size=4 data.threads=1 "
                       "trainer.max_steps=2 device.type=cpu ",
                       transforms) +
               kTinyVit);
}

// The files of any user.
TEST_F(ComingFromTest, AnySystem) {
  for (const auto& [sample, name] :
       std::vector<std::pair<std::string, std::string>>{{"ucf.yaml", "base_config.yaml"},
                                                        {"rosetta_pretrain.gin", "pretrain.gin"},
                                                        {"rosetta_finetune.gin", "finetune.gin"}}) {
    fs::copy(fs::path(dir_.path()) / sample, fs::path(dir_.path()) / name);
  }
  run_page("coming_from.md", "");
}

TEST_F(ComingFromTest, Dinov2Tutorial) {
  const std::string transforms =
      "transforms: [{name: resize, size: [32, 32]}, {name: normalize, preset: imagenet}]";
  const auto recipe = fmt::format(
      "run: {{dir: runs/probe}}\n"
      "model: {{name: vit, img_size: 32, patch_size: 8, embed_dim: 16, depth: 1, num_heads: 2, "
      "num_classes: 2}}\n"
      "task: {{name: classification}}\n"
      "data:\n  train: {{format: folder, path: images/train, {0}}}\n"
      "  val: {{format: folder, path: images/val, {0}}}\n  global_batch_size: 4\n  threads: 1\n"
      "device: {{type: cpu}}\ntrainer: {{max_steps: 2, freeze: [backbone]}}\n",
      transforms);
  dir_.write("probe.yaml", std::vector<uint8_t>(recipe.begin(), recipe.end()));
  run_page("coming_from_dinov2_tutorial.md", "trainer.max_steps=2");
}

}  // namespace
}  // namespace fovea
