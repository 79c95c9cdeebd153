#include "fovea/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

using testing::HasSubstr;

Manifest sample() {
  Manifest manifest;
  manifest.step = 7;
  manifest.scalars = {{"best", 0.1}, {"log", {{"sums", {{"correct", 1e-300}}}}}};
  manifest.files = {{"model-00000.safetensors", 123, "ab"}};
  manifest.tensors["model"]["w"] = {
      "F32", {4, 3}, {{"model-00000.safetensors", {0, 0}, {2, 3}}, {"other", {2, 0}, {2, 3}}}};
  manifest.not_averaged = {"w"};
  return manifest;
}

std::string fault_of(const std::filesystem::path& folder, const std::string& text) {
  write_bytes(folder / "manifest.json", text);
  try {
    read_manifest(folder);
    return {};
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

TEST(ManifestTest, ReadsWhatItWrote) {
  const TempDir folder;
  write_bytes(folder.file("manifest.json"), sample().to_text());
  const auto found = read_manifest(folder.path());
  EXPECT_EQ(found.to_text(), sample().to_text());
  EXPECT_EQ(found.scalars, sample().scalars);
  EXPECT_EQ(found.tensors.at("model").at("w").slices.at(1).offset, (std::vector<int64_t>{2, 0}));
}

TEST(ManifestTest, SaysWhatIsWrong) {
  const TempDir folder;
  const auto text = sample().to_text();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    auto copy = text;
    return copy.replace(copy.find(from), from.size(), to);
  };
  EXPECT_EQ(fault_of(folder.path(), text), "");
  EXPECT_THAT(fault_of(folder.path(), replaced("123", "124")), HasSubstr("checksum"));
  EXPECT_THAT(fault_of(folder.path(), text.substr(0, 50)), HasSubstr("not a manifest"));
  EXPECT_THAT(fault_of(folder.path(), "[]"), HasSubstr("not a manifest"));
  EXPECT_THAT(fault_of(folder.path(), "{\"manifest\":" + std::string(1000000, '[')),
              HasSubstr("nested too deep"));
  std::filesystem::remove(folder.file("manifest.json"));
  EXPECT_THROW(read_manifest(folder.path()), CheckpointError);
}

}  // namespace
}  // namespace fovea::checkpoint
