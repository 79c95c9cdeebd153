// What users get wrong, through the program itself: one clear message, the right exit code, nothing
// lost.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/files/safetensors.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using data::testing::gzip;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ProgramResult;
using testing::run_fovea;

class BadInputTest : public ::testing::Test {
 protected:
  BadInputTest() {
    const testing::StripedImages images(64, 8);
    images_ = images.image_file();
    dir_.write("images.gz", gzip(images_));
    dir_.write("labels.gz", gzip(images.label_file()));
    recipe_ = dir_.write("recipe.yaml", recipe());
  }

  std::string recipe() const {
    const auto data = fmt::format(
        "{{format: idx, images: {0}/images.gz, labels: {0}/labels.gz, num_classes: 4, "
        "transforms: [normalize]}}",
        dir_.path());
    return fmt::format(
        "run: {{dir: {0}/run}}\n"
        "device: {{type: cpu, threads: 1}}\n"
        "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 1, num_classes: 4,\n"
        "        embed_dim: 32, depth: 1, num_heads: 2}}\n"
        "data:\n  train: {1}\n  val: {1}\n  global_batch_size: 16\n  threads: 1\n"
        "trainer: {{max_steps: 8}}\n"
        "checkpoint: {{every_steps: 2, async: false}}\n",
        dir_.path(), data);
  }

  ProgramResult train(const std::string& overrides = "", const std::string& prefix = "") const {
    return run_fovea("train " + recipe_ + " " + overrides, prefix);
  }

  // Fails as `code` says, with all of `parts` in a message of few lines, and without a run begun.
  void expect_refused(const ProgramResult& result, ExitCode code,
                      const std::vector<std::string>& parts) const {
    EXPECT_EQ(result.exit_code, static_cast<int>(code)) << result.output;
    for (const auto& part : parts) EXPECT_THAT(result.output, HasSubstr(part));
    EXPECT_THAT(result.output, HasSubstr("error: "));
    EXPECT_LT(std::count(result.output.begin(), result.output.end(), '\n'), 12) << result.output;
    EXPECT_FALSE(fs::exists(dir_.path() + "/run")) << "a run folder is left behind";
  }

  data::testing::TempDir dir_;
  std::vector<uint8_t> images_;
  std::string recipe_;
};

TEST_F(BadInputTest, AForcedKernelThatIsNotThereEndsEveryCommandAtItsStart) {
  const auto refused = train("", "FOVEA_KERNELS=linear=avx_2");
  EXPECT_EQ(refused.exit_code, static_cast<int>(ExitCode::kConfig)) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("error: FOVEA_KERNELS=linear=avx_2: the path 'avx_2' "
                                              "is unknown; expected one of auto, reference, "),
                                    HasSubstr("did you mean avx2?")));
  EXPECT_FALSE(fs::exists(fs::path(dir_.path()) / "run"));
  const auto forced = run_fovea("doctor", "FOVEA_KERNELS=linear=reference");
  EXPECT_THAT(forced.output,
              HasSubstr("linear     float32 reference, bfloat16 reference (forced)\n"));
}

TEST_F(BadInputTest, EightBitIntegersAreOfInferenceAlone) {
  const auto refused = train("device.dtype=int8");
  EXPECT_EQ(refused.exit_code, static_cast<int>(ExitCode::kConfig)) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("device.dtype: found int8, with which a trained model"));
  const auto bench = run_fovea("bench model vit_tiny_patch16_224 --dtype int8");
  EXPECT_EQ(bench.exit_code, static_cast<int>(ExitCode::kConfig)) << bench.output;
  EXPECT_THAT(bench.output, HasSubstr("--mode infer"));
}

TEST_F(BadInputTest, TheRecipeItselfIsGood) {
  const auto result = train();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("done: 8 steps, 2.00 epochs; loss "));
  const auto lines = read_file(dir_.path() + "/run/metrics.jsonl", 1 << 20);
  size_t of_training = 0;
  for (size_t at = 0; (at = lines.find("\"train\"", at)) != std::string::npos; ++at) ++of_training;
  EXPECT_EQ(of_training, 8) << "a line for each step of a short run";
  const auto once = train("trainer.max_steps=1 data.val=null run.dir=" + dir_.path() + "/once");
  EXPECT_THAT(once.output, HasSubstr("done: 1 step, 0.25 epochs\n"));
}

TEST_F(BadInputTest, UnknownKeyAndWrongTypeComeTogether) {
  dir_.write("recipe.yaml", recipe() + "optim: {lrr: 1e-3}\nschedule: {warmup_steps: many}\n");
  expect_refused(
      train(), ExitCode::kConfig,
      {"recipe.yaml:12", "optim.lrr", "lr", "recipe.yaml:13", "schedule.warmup_steps", "many"});
}

TEST_F(BadInputTest, DeepYaml) {
  dir_.write("recipe.yaml", std::string(100000, '[') + std::string(100000, ']'));
  expect_refused(train(), ExitCode::kConfig, {"recipe.yaml", "nested"});
}

TEST_F(BadInputTest, ImpossibleCombinations) {
  expect_refused(train("model.num_heads=5"), ExitCode::kConfig,
                 {"embed_dim", "32", "num_heads", "5"});
  expect_refused(train("model.patch_size=3"), ExitCode::kConfig, {"patch_size", "3", "8"});
  expect_refused(train("model.num_classes=7"), ExitCode::kConfig, {"num_classes", "7", "4"});
}

TEST_F(BadInputTest, DataThatIsNotThere) {
  expect_refused(train("data.train.images=/nowhere/images.gz"), ExitCode::kData,
                 {"/nowhere/images.gz"});
  expect_refused(train("data.val.labels=/nowhere/labels.gz"), ExitCode::kData,
                 {"/nowhere/labels.gz"});
  fs::create_directories(dir_.path() + "/set/cat");
  fs::create_directories(dir_.path() + "/set/dog");
  dir_.write("set/cat/1.png", std::string("x"));
  const auto set =
      fmt::format("'data.train={{format: folder, path: {}/set}}' model.num_classes=2", dir_.path());
  expect_refused(train(set), ExitCode::kData, {"dog"});
  const auto none = fmt::format("'data.train={{format: folder, path: {}/none}}'", dir_.path());
  expect_refused(train(none), ExitCode::kData, {dir_.path() + "/none"});
}

TEST_F(BadInputTest, DamagedDataFiles) {
  auto bytes = gzip(images_);
  bytes.resize(bytes.size() / 2);
  dir_.write("images.gz", bytes);
  expect_refused(train(), ExitCode::kData, {"images.gz"});
  auto magic = images_;
  magic[0] = 9;
  dir_.write("images.gz", gzip(magic));
  expect_refused(train(), ExitCode::kData, {"images.gz", "not an IDX file", "0x00000803"});
}

TEST_F(BadInputTest, ImagesThatAreNone) {
  const auto predict = [&](const std::string& image) {
    return run_fovea("predict vit_tiny_patch16_224 --device cpu " + image);
  };
  const auto text = predict(dir_.write("text.jpg", std::string("this is no picture")));
  expect_refused(text, ExitCode::kData, {"text.jpg"});
  // A PNG that says it is 100,000 x 100,000: the head alone, with its right checksum.
  const std::vector<uint8_t> head = {0x89, 'P', 'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,
                                     0,    13,  'I',  'H',  'D',  'R',  0,    1,    0x86, 0xa0,
                                     0,    1,   0x86, 0xa0, 8,    2,    0,    0,    0};
  auto png = head;
  const auto crc = crc32(0, head.data() + 12, 17);
  for (const int shift : {24, 16, 8, 0}) png.push_back(static_cast<uint8_t>(crc >> shift));
  expect_refused(predict(dir_.write("huge.png", png)), ExitCode::kData, {"huge.png", "100000"});
}

TEST_F(BadInputTest, WeightsThatDoNotFit) {
  std::vector<uint8_t> hostile(64, 0xff);  // a header of 2^64 - 1 bytes
  const auto init = [&](const std::string& file) { return train("init.weights=" + file); };
  expect_refused(init(dir_.write("hostile.safetensors", hostile)), ExitCode::kData,
                 {"hostile.safetensors"});
  const auto other = dir_.path() + "/other.safetensors";
  ASSERT_EQ(run_fovea("convert vit_tiny_patch16_224 " + other).exit_code, 0);
  expect_refused(init(other), ExitCode::kData, {"other.safetensors", "blocks.0", "[32"});
}

// A pipe that nobody writes to would be waited for; the program's time is bounded by `timeout`.
TEST_F(BadInputTest, WhatIsNoFileIsNamed) {
  const auto pipe = dir_.path() + "/pipe.yaml", circle = dir_.path() + "/circle.safetensors";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(circle, circle);
  expect_refused(run_fovea("config show " + pipe, "timeout 60"), ExitCode::kConfig,
                 {"pipe.yaml: a pipe, not a regular file"});
  expect_refused(run_fovea("convert " + circle + " out.safetensors", "timeout 60"), ExitCode::kData,
                 {"circle.safetensors", "symbolic links"});
}

TEST_F(BadInputTest, ClassNamesThatAreNone) {
  const auto path = dir_.file("named.safetensors");
  write_safetensors(path, {}, {{"fovea.class_names", "{\"cat\": 1}"}});
  expect_refused(run_fovea("predict " + path + " x.jpg"), ExitCode::kData,
                 {"named.safetensors: fovea.class_names", "expected a list"});
}

// Files end at 64 KiB, as on a full disk: the run says so, and what was saved before stands.
TEST_F(BadInputTest, FullDiskDuringASave) {
  ASSERT_EQ(train("trainer.max_steps=8").exit_code, 0);
  const auto latest = read_file(dir_.path() + "/run/checkpoints/latest", 4096);
  fs::remove_all(dir_.path() + "/run");
  const auto full = train("", "trap '' XFSZ; ulimit -f 64;");
  EXPECT_EQ(full.exit_code, static_cast<int>(ExitCode::kData)) << full.output;
  EXPECT_THAT(full.output, HasSubstr("error: "));
  const auto again = train();
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(read_file(dir_.path() + "/run/checkpoints/latest", 4096), latest);
}

// Nothing can be written at all: not even the log.
TEST_F(BadInputTest, FullDiskAtTheStart) {
  const auto full = train("", "trap '' XFSZ; ulimit -f 0;");
  expect_refused(full, ExitCode::kData, {"cannot be"});
  EXPECT_THAT(full.output, Not(HasSubstr("LOG ERROR")));
}

TEST_F(BadInputTest, CheckpointWithAFlippedByteIsPassedOver) {
  ASSERT_EQ(train().exit_code, 0);
  const auto reference = read_file(dir_.path() + "/run/weights.safetensors", 1 << 20);
  fs::path damaged;
  for (const auto& entry :
       fs::recursive_directory_iterator(dir_.path() + "/run/checkpoints/step_00000008")) {
    if (entry.path().filename().string().starts_with("model-")) damaged = entry.path();
  }
  ASSERT_FALSE(damaged.empty());
  auto bytes = read_file(damaged.string(), 1 << 20);
  bytes[bytes.size() - 5] ^= 0x10;
  std::ofstream(damaged, std::ios::binary) << bytes;
  // What no resume needs does not stop one.
  for (const auto* name : {"machine.json", "evaluation.json", "report.html", "bad_samples.json",
                           "checkpoints/latest", "checkpoints/best"})
    dir_.write(std::string("run/") + name, std::string("{\"started\": 7"));
  const auto result = train();
  EXPECT_THAT(result.output, HasSubstr("machine.json: not JSON"));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("step_00000008"), HasSubstr("from step 6")));
  EXPECT_EQ(read_file(dir_.path() + "/run/weights.safetensors", 1 << 20), reference);
}

TEST_F(BadInputTest, ControlCTwice) {
  // A run without end, which is sent `signals` once it has saved something itself.
  const auto interrupt = [&](const std::string& signals) {
    const auto latest = "\"$(cat " + dir_.path() + "/run/checkpoints/latest 2>/dev/null)\"";
    return run_fovea("train " + recipe_ + " trainer.max_steps=1000000 & pid=$!; while test " +
                         latest + " = \"$before\"; do sleep 0.05; done; " + signals +
                         " wait $pid; exit $?",
                     "before=" + latest + ";");
  };
  // The second one comes while the first is still being honoured: at once, and nothing saved is
  // lost.
  const auto twice = interrupt("kill -INT $pid; kill -INT $pid;");
  EXPECT_THAT(twice.exit_code, ::testing::AnyOf(static_cast<int>(ExitCode::kStopped), 130))
      << twice.output;
  const auto once = interrupt("kill -INT $pid;");
  EXPECT_EQ(once.exit_code, static_cast<int>(ExitCode::kStopped)) << once.output;
  EXPECT_THAT(once.output, AllOf(HasSubstr("going on from step"), HasSubstr("the state is saved")));
}

TEST_F(BadInputTest, CommandLineMistakes) {
  EXPECT_EQ(run_fovea("trian x").exit_code, 2);
  EXPECT_EQ(run_fovea("train").exit_code, 2);
  const auto none = run_fovea("calibrate " + recipe_ + " --samples 0");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("--samples: found '0', expected a number above 0;"));
  EXPECT_THAT(run_fovea("calibrate " + recipe_ + " --threads -1").output,
              HasSubstr("--threads: found '-1', expected a number of 0 or more;"));
  expect_refused(run_fovea("train /nowhere.yaml"), ExitCode::kConfig, {"/nowhere.yaml"});
  expect_refused(run_fovea("predict vit_tiny_patch16_223 x.png"), ExitCode::kConfig,
                 {"vit_tiny_patch16_223", "vit_tiny_patch16_224"});
}

}  // namespace
}  // namespace fovea
