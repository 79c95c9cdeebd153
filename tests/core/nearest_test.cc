#include "fovea/core/nearest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

TEST(NearestTest, CountsEdits) {
  EXPECT_EQ(edit_distance("train", "train"), 0u);
  EXPECT_EQ(edit_distance("trian", "train"), 1u);  // neighbours swapped
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(NearestTest, FindsWhatWasMeant) {
  const std::vector<std::string> known = {"train", "eval", "explain", "export"};
  EXPECT_EQ(nearest("trian", known), "train");
  EXPECT_EQ(nearest("exprot", known), "export");
  EXPECT_EQ(nearest("exp", known), "explain") << "the first that begins so";
  EXPECT_EQ(nearest("banana", known), "");
  EXPECT_EQ(nearest(std::string(1000, 'e'), known), "");
  EXPECT_EQ(or_did_you_mean("evl", known), "; did you mean eval?");
}

class NearestPathTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return dir_.path() + "/" + name; }

  support::TempDir dir_;
};

TEST_F(NearestPathTest, FindsFilesAndTheirFolders) {
  std::filesystem::create_directories(at("recipes/mnist"));
  dir_.write("recipes/mnist/vit.yaml", std::string("x"));
  EXPECT_EQ(nearest_path(at("recipes/mnist/vti.yaml")), at("recipes/mnist/vit.yaml"));
  EXPECT_EQ(nearest_path(at("recipes/mnist/vit.yml")), at("recipes/mnist/vit.yaml"));
  EXPECT_EQ(nearest_path(at("recpies/minst/vit.yaml")), at("recipes/mnist/vit.yaml"));
  EXPECT_EQ(nearest_path(at("recipes/mnist/other.yaml")), "");
  EXPECT_EQ(nearest_path(at("recipes/mnist/vit.yaml/x")), "");
  EXPECT_EQ(nearest_path(at("recipes/mnist/vit.yaml")), "") << "it is there";
  EXPECT_EQ(nearest_path(""), "");
}

TEST_F(NearestPathTest, ANumberedFileIsNotItsNeighbour) {
  dir_.write("image_0001.png", std::string("x"));
  dir_.write("a.png", std::string("x"));
  EXPECT_EQ(nearest_path(at("image_0002.png")), "");
  EXPECT_EQ(nearest_path(at("b.png")), "");
  EXPECT_EQ(nearest_path(at("imgae_0001.png")), at("image_0001.png"));
}

TEST_F(NearestPathTest, ALinkThatLeadsNowhereIsNoAnswer) {
  std::filesystem::create_symlink(at("gone"), at("link.yaml"));
  EXPECT_EQ(nearest_path(at("link.yaml")), "");
}

}  // namespace
}  // namespace fovea
