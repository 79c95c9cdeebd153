// Weights of other systems through the program: converted, or one clear message and nothing
// written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"
#include "tests/support/zip_of.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

std::string foreign(const std::string& name) {
  return std::string(FOVEA_SOURCE_DIR "/tests/golden/weights/") + name;
}

class ConvertTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return dir_.path() + "/" + name; }
  // Names that no file of the folder begins with: a target and its temporary file.
  bool is_nothing_written(const std::string& target) const {
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      if (entry.path().filename().string().starts_with(target)) return false;
    }
    return true;
  }
  void expect_refused(const std::string& arguments, ExitCode code, const std::string& said) const {
    const auto result = run_fovea("convert " + arguments);
    EXPECT_EQ(result.exit_code, static_cast<int>(code)) << result.output;
    EXPECT_THAT(result.output, AllOf(HasSubstr("error: "), HasSubstr(said)));
    EXPECT_TRUE(is_nothing_written("out")) << arguments;
  }

  data::testing::TempDir dir_;
};

TEST_F(ConvertTest, GoesFromSystemToSystemAndBack) {
  const auto there =
      run_fovea(fmt::format("convert {} {}", foreign("hf_vit.safetensors"), file("a.pth")));
  ASSERT_EQ(there.exit_code, 0) << there.output;
  EXPECT_THAT(there.output,
              AllOf(HasSubstr("names of Hugging Face's ViT"), HasSubstr("converted")));
  const auto back =
      run_fovea(fmt::format("convert {} {} --to hf", file("a.pth"), file("b.safetensors")));
  ASSERT_EQ(back.exit_code, 0) << back.output;
  EXPECT_THAT(back.output, HasSubstr("cls_token -> vit.embeddings.cls_token"));
  // The same tensors, so files of one size.
  const auto json = run_fovea(
      fmt::format("convert {} {} --from hf --json", file("b.safetensors"), file("c.safetensors")));
  ASSERT_EQ(json.exit_code, 0) << json.output;
  EXPECT_THAT(json.output, AllOf(HasSubstr("\"from\":\"hf_vit\""), HasSubstr("\"loaded\":32"),
                                 HasSubstr("\"unexpected\":[]")));
}

TEST_F(ConvertTest, SaysWhichTensorsItTook) {
  const auto chosen = run_fovea(fmt::format("convert {} {} --key state_dict_ema",
                                            foreign("timm.pth.tar"), file("ema.safetensors")));
  ASSERT_EQ(chosen.exit_code, 0) << chosen.output;
  EXPECT_THAT(chosen.output, AllOf(HasSubstr("the tensors under \"state_dict_ema\""),
                                   HasSubstr("32 other tensors left out")));
}

TEST_F(ConvertTest, WritesNothingThatDoesNotFit) {
  expect_refused(fmt::format("{} {} --model vit_tiny_patch16_224", foreign("timm.pth.tar"),
                             file("out.safetensors")),
                 ExitCode::kData, "these are weights of another model");
  expect_refused(
      fmt::format("{} {} --from google", foreign("timm.pth.tar"), file("out.safetensors")),
      ExitCode::kData, "unexpected");
  expect_refused(fmt::format("{} {}", foreign("timm.pth.tar"), file("out.npz")), ExitCode::kConfig,
                 "expected a name that ends in");
  expect_refused(fmt::format("{} {} --to dinov2", foreign("google_siglip.npz"), file("out.pth")),
                 ExitCode::kData, "DINOv2 has cls_token");
  expect_refused(fmt::format("{} {} --to hf_vit", foreign("google_siglip.npz"), file("out.pth")),
                 ExitCode::kData, "has no name for: attn_pool.latent");
  expect_refused(fmt::format("{} {}", foreign("torch_kinds.pt"), file("out.pth")),
                 ExitCode::kConfig, "of no system that is known");
}

// Each would be passed over without a word.
TEST_F(ConvertTest, RefusesAnOptionWithoutUse) {
  for (const std::string option : {"--skip-head", "--key model", "--from timm"}) {
    expect_refused(fmt::format("vit_tiny_patch16_224 {} {}", file("out.safetensors"), option),
                   ExitCode::kConfig, option.substr(0, option.find(' ')));
  }
  expect_refused(
      fmt::format("{} {} --checkpoint best", foreign("timm.pth.tar"), file("out.safetensors")),
      ExitCode::kConfig, "--checkpoint");
}

TEST_F(ConvertTest, RefusesAPickleThatAsksForMore) {
  const std::string program(
      "\x80\x02"
      "cos\nsystem\nX\x05\0\0\0touch\x85R.",
      26);
  dir_.write("hostile.pt", support::stored_zip({{"a/data.pkl", program}}));
  const auto said = "it wants to load os.system, which is refused and was not run";
  expect_refused(fmt::format("{} {}", file("hostile.pt"), file("out.safetensors")), ExitCode::kData,
                 said);
  const auto predicted =
      run_fovea("predict vit_tiny_patch16_224 --weights " + file("hostile.pt") + " x.png");
  EXPECT_EQ(predicted.exit_code, static_cast<int>(ExitCode::kData));
  EXPECT_THAT(predicted.output, HasSubstr(said));
}

TEST_F(ConvertTest, RefusesADamagedArray) {
  auto bytes = read_file(foreign("google_augreg.npz"), 1 << 20);
  bytes[bytes.find("NUMPY") + 20] ^= 1;
  dir_.write("damaged.npz", std::vector<uint8_t>(bytes.begin(), bytes.end()));
  expect_refused(fmt::format("{} {}", file("damaged.npz"), file("out.safetensors")),
                 ExitCode::kData, "checksum");
}

}  // namespace
}  // namespace fovea
