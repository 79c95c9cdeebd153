#include "fovea/weights/dcp_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/core/files.h"
#include "fovea/weights/weights_file.h"
#include "tests/support/close.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using testing::by_name;
using testing::expected;
using testing::foreign_file;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::TempDir;

// Saved by two processes, uneven rows: 9 of 5 and 4, 5 of 3 and 2, 1 of 1 and 0.
TEST(DcpFolderTest, PutsPartsOfSeveralProcessesTogether) {
  const auto file = read_weights_file(foreign_file("dcp_sharded"));
  const auto golden = expected().group("dcp_sharded/weights");
  EXPECT_THAT(file.notes, ::testing::ElementsAre("the tensors under \"model\"",
                                                 "\"module.\" taken off the names"));
  EXPECT_THAT(file.left_out, ::testing::ElementsAre("optimizer.exp_avg"));
  ASSERT_EQ(file.tensors.size(), golden.size());
  for (const auto& [name, tensor] : file.tensors)
    support::expect_same_bits(tensor, golden.at(name), name);
}

TEST(DcpFolderTest, HoldsWhatTheTorchFileHeld) {
  const auto folder = by_name(read_weights_file(foreign_file("dcp")).tensors);
  const auto file = by_name(read_weights_file(foreign_file("hf_vit_model.bin")).tensors);
  ASSERT_EQ(folder.size(), file.size());
  for (const auto& [name, tensor] : file) support::expect_same_bits(folder.at(name), tensor, name);
}

// Moments lie beside the weights, below any key; the order is that of the saved dict.
TEST(DcpFolderTest, LeavesTheStateOfAnOptimizerOut) {
  for (const auto* name : {"dcp", "dcp_flat"}) {
    const auto file = read_weights_file(support::golden_path(std::string("moving/") + name));
    ASSERT_EQ(file.tensors.size(), 20U) << name;
    EXPECT_EQ(file.tensors.front().first, "cls_token");
    EXPECT_EQ(file.tensors.back().first, "head.bias");
    EXPECT_EQ(file.left_out.size(), 60U) << "exp_avg, exp_avg_sq and step of each";
  }
}

class DamagedDcpTest : public ::testing::Test {
 protected:
  DamagedDcpTest() {
    for (const auto* name : {".metadata", "__0_0.distcp", "__1_0.distcp"})
      std::filesystem::copy_file(foreign_file("dcp_sharded") + "/" + name, folder_.file(name));
  }
  // With `from` of the index replaced by as many bytes.
  // With `from` of the index replaced by as many bytes, where it stands for the nth time or, with
  // 0, everywhere.
  std::string refusal(const std::string& from, const std::string& to, int nth = 1) {
    auto index = read_file(foreign_file("dcp_sharded") + "/.metadata", 1 << 20);
    int found = 0;
    for (size_t at = 0; (at = index.find(from, at)) != std::string::npos; at += from.size()) {
      if (++found == nth || nth == 0) index.replace(at, from.size(), to);
    }
    EXPECT_GE(found, std::max(nth, 1)) << from;
    std::ofstream(folder_.file(".metadata"), std::ios::binary) << index;
    return refusal();
  }
  std::string refusal() const {
    return refusal_of([&] { read_weights_file(folder_.file("")); });
  }
  TempDir folder_;
};

TEST_F(DamagedDcpTest, NamesWhatIsWrong) {
  EXPECT_EQ(refusal(), "nothing was refused");
  EXPECT_THAT(refusal("PosixPath", "WasmPaths"), HasSubstr("pathlib.WasmPaths, which is refused"));
  EXPECT_THAT(refusal("__0_0.distcp", "../_0.distcp"), HasSubstr("the file \"../_0.distcp\""));
  EXPECT_THAT(refusal("storage_data", "storage_dada"), HasSubstr("no \"storage_data\""));
  EXPECT_THAT(refusal("float32", "float99"), HasSubstr("torch.float99, which is refused"));
  EXPECT_THAT(refusal("float32", "float64"), HasSubstr("belongs"));
}

// A tensor under another name would be left out, as of another part of the checkpoint.
TEST_F(DamagedDcpTest, RefusesADamagedName) {
  const std::string name = "model.module.norm.weight", damaged = "modes.module.norm.weight";
  EXPECT_THAT(refusal(name, damaged, 0), HasSubstr("where its keys are model.module.norm.weight"));
  for (const int place : {1, 2, 3, 4}) {  // the tensor, its keys, its two parts
    EXPECT_THAT(refusal(name, damaged, place), HasSubstr("module.norm.weight")) << place;
  }
  EXPECT_THAT(refusal("optimizer.lr", "optimizes.lr", 2), HasSubstr("optimizes.lr"));
}

TEST_F(DamagedDcpTest, NamesAMissingFile) {
  std::filesystem::remove(folder_.file("__1_0.distcp"));
  EXPECT_THAT(refusal(), HasSubstr("__1_0.distcp"));
}

}  // namespace
}  // namespace fovea::weights
