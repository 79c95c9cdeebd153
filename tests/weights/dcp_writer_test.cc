#include "fovea/weights/dcp_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/weights/dcp_folder.h"
#include "fovea/weights/weights_file.h"
#include "tests/support/close.h"
#include "tests/support/python.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using testing::expected;
using testing::TempDir;

// Every dtype, a tensor without sides and a view.
nn::NamedTensors dcp_tensors() {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : expected().group("torch_kinds")) {
    tensors.emplace_back(name, tensor);
  }
  tensors.emplace_back("a.view", expected().at("images").select(1, 2).transpose(0, 1));
  return tensors;
}

void expect_read_back(const std::string& folder) {
  const auto back = testing::by_name(read_weights_file(folder).tensors);
  ASSERT_EQ(back.size(), dcp_tensors().size());
  for (const auto& [name, tensor] : dcp_tensors()) {
    support::expect_same_bits(back.at(name).contiguous(), tensor.contiguous(), name);
  }
}

TEST(DcpWriterTest, IsReadBackBitForBit) {
  const TempDir folder;
  write_dcp_folder(folder.file("with_key"), dcp_tensors());
  expect_read_back(folder.file("with_key"));
  const DcpFolder written(folder.file("with_key"));
  ASSERT_EQ(written.tensors().size(), dcp_tensors().size());
  for (const auto& tensor : written.tensors()) {
    EXPECT_EQ(tensor.top, "model");
    EXPECT_TRUE(tensor.name.starts_with("model.")) << tensor.name;
  }
  write_dcp_folder(folder.file("plain"), dcp_tensors(), "");
  expect_read_back(folder.file("plain"));
}

TEST(DcpWriterTest, LeavesWhatIsThereAndNothingHalfWritten) {
  const TempDir folder;
  write_dcp_folder(folder.file("a"), dcp_tensors());
  EXPECT_THROW(write_dcp_folder(folder.file("a"), dcp_tensors()), CheckpointError);
  const auto complex = expected().at("images").to(at::kComplexFloat);
  EXPECT_THROW(write_dcp_folder(folder.file("b"), {{"z", complex}}), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(folder.file("b")));
}

// torch's own format_utils make a file of it with the same tensors, and a folder of that again.
TEST(DcpWriterTest, RoundTripThroughTorch) {
  const auto python = support::python();
  if (python.empty() ||
      support::run_command(python + " -c 'import torch, safetensors' 2>&1").status != 0) {
    GTEST_SKIP() << "set FOVEA_PYTHON to a Python with torch and safetensors";
  }
  const TempDir folder;
  write_dcp_folder(folder.file("dcp"), dcp_tensors());
  nn::write_tensor_file(folder.file("w.safetensors"), dcp_tensors());
  const auto result = support::run_command(fmt::format(
      "{} {}/tests/weights/dcp_check.py {} {} {} {} 2>&1", python, FOVEA_SOURCE_DIR,
      folder.file("dcp"), folder.file("w.safetensors"), folder.file("w.pt"), folder.file("again")));
  ASSERT_EQ(result.status, 0) << result.output;
  expect_read_back(folder.file("w.pt"));
  expect_read_back(folder.file("again"));
}

}  // namespace
}  // namespace fovea::weights
