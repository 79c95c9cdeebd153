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
  EXPECT_THAT(fault_of(folder.path(), text.substr(0, 50)), HasSubstr("not JSON"));
  EXPECT_THAT(fault_of(folder.path(), "[]"), HasSubstr("found a list of 0; expected an object"));
  EXPECT_THAT(fault_of(folder.path(), "{\"manifest\":" + std::string(1000000, '[')),
              HasSubstr("nested deeper than 32 levels"));
  std::filesystem::remove(folder.file("manifest.json"));
  EXPECT_THROW(read_manifest(folder.path()), CheckpointError);
}

TEST(ManifestTest, WrongTypesAreNamed) {
  const TempDir folder;
  const auto good = nlohmann::json::parse(sample().to_text()).at("manifest");
  const auto fault = [&](const std::string& place, const nlohmann::json& value) {
    auto contents = good;
    contents[nlohmann::json::json_pointer(place)] = value;
    return fault_of(folder.path(), signed_manifest(contents));
  };
  EXPECT_EQ(fault("/step", 7), "");
  EXPECT_THAT(fault("/step", "seven"),
              HasSubstr("manifest.json: manifest.step: found \"seven\"; expected a whole number"));
  EXPECT_THAT(fault("/format", nullptr), HasSubstr("manifest.format: found null"));
  EXPECT_THAT(fault("/scalars", 1), HasSubstr("manifest.scalars: found 1; expected an object"));
  EXPECT_THAT(fault("/not_averaged", "w"), HasSubstr("expected a list"));
  EXPECT_THAT(fault("/files/0/bytes", -1), HasSubstr("expected a whole number from 0"));
  EXPECT_THAT(fault("/files/0/name", "../../etc/passwd"), HasSubstr("the name of a file"));
  EXPECT_THAT(fault("/tensors/model", 3), HasSubstr("tensors.model: found 3"));
  EXPECT_THAT(fault("/tensors/model/w/shape/0", 1e300), HasSubstr("tensors.model.w.shape.0"));
  EXPECT_THAT(fault("/tensors/model/w/shape/0", int64_t{1} << 62), HasSubstr("as there can be"));
  EXPECT_THAT(fault("/tensors/model/w/slices/1/offset", {-1, 0}), HasSubstr("sizes from 0"));
  EXPECT_THAT(fault("/tensors/model/w/dtype", nlohmann::json::object()), HasSubstr("a text"));
}

}  // namespace
}  // namespace fovea::checkpoint
