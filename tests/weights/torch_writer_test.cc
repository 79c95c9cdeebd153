#include "fovea/weights/torch_writer.h"

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fovea/core/files.h"
#include "fovea/core/write_error.h"
#include "fovea/files/zip.h"
#include "fovea/weights/torch_file.h"
#include "fovea/weights/weights_file.h"
#include "tests/support/close.h"
#include "tests/support/python.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using testing::expected;
using testing::TempDir;

nn::NamedTensors every_kind() {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : expected().group("torch_kinds"))
    tensors.emplace_back(name, tensor);
  tensors.emplace_back("a view", expected().at("images").select(1, 2).transpose(0, 1));
  return tensors;
}

TEST(TorchWriterTest, IsReadBackBitForBit) {
  const TempDir folder;
  const auto tensors = every_kind();
  write_torch_file(folder.file("w.pt"), tensors);
  TorchFile file(folder.file("w.pt"));
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.tensors()[i].name, tensors[i].first);
    support::expect_same_bits(file.read(file.tensors()[i]), tensors[i].second.contiguous(),
                              tensors[i].first);
  }
}

// As torch lays its files out, so that they can be mapped.
TEST(TorchWriterTest, EveryStorageBeginsAtAMultipleOf64Bytes) {
  const TempDir folder;
  write_torch_file(folder.file("w.pt"), every_kind());
  const auto bytes = read_file(folder.file("w.pt"), 1 << 24);
  const auto number_at = [&](uint64_t at) {  // of two bytes
    return static_cast<uint8_t>(bytes.at(at)) + 256U * static_cast<uint8_t>(bytes.at(at + 1));
  };
  size_t storages = 0;
  const ZipFile file(folder.file("w.pt"));
  for (const auto& member : file.members()) {
    if (member.name.find("/data/") == member.name.npos) continue;
    // A local header has 30 bytes, then the name and the extra field that pads.
    const auto at = member.header_offset;
    EXPECT_EQ((at + 30 + number_at(at + 26) + number_at(at + 28)) % 64, 0U) << member.name;
    ++storages;
  }
  EXPECT_GE(storages, every_kind().size());
}

TEST(TorchWriterTest, EqualTensorsGiveEqualFiles) {
  const TempDir folder;
  write_torch_file(folder.file("a.pt"), every_kind());
  write_torch_file(folder.file("b.pt"), every_kind());
  EXPECT_EQ(std::filesystem::file_size(folder.file("a.pt")),
            std::filesystem::file_size(folder.file("b.pt")));
  const ZipFile a(folder.file("a.pt")), b(folder.file("b.pt"));
  for (const auto& member : a.members())
    EXPECT_EQ(a.read(member, 1 << 20), b.read(*b.find(member.name), 1 << 20)) << member.name;
}

TEST(TorchWriterTest, WritesNothingWhereItCannot) {
  EXPECT_THROW(write_torch_file("/nowhere/w.pt", every_kind()), CheckpointError);
  const TempDir folder;
  const auto complex = expected().at("images").to(at::kComplexFloat);
  EXPECT_THROW(write_torch_file(folder.file("w.pt"), {{"z", complex}}), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(folder.file("w.pt")));
}

// A disk that is full at some byte: libtorch's writer must not end the program over it.
TEST(TorchWriterTest, PassesOnWhatTheSinkThrows) {
  const TorchObject object(dict_of(every_kind()));
  uint64_t room = 0;
  const auto bytes = write_torch_object([](auto) {}, object);
  for (; room < bytes; room += bytes / 7) {
    uint64_t written = 0;
    const ByteSink sink = [&](std::span<const std::byte> part) {
      written += part.size();
      if (written > room) throw WriteError("no room");
    };
    EXPECT_THROW(write_torch_object(sink, object), WriteError) << room;
  }
}

// Zeros of more than 4 GiB that take neither memory nor disk, and a tensor behind them.
class HugeTorchFile {
 public:
  static constexpr int64_t kZeros = (int64_t{1} << 32) + 5;

  explicit HugeTorchFile(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)),
        zeros_(
            mmap(nullptr, kZeros, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~HugeTorchFile() {
    close(file_);
    munmap(zeros_, kZeros);
  }
  HugeTorchFile(const HugeTorchFile&) = delete;
  HugeTorchFile& operator=(const HugeTorchFile&) = delete;

  bool is_possible() const {
    return file_ >= 0 && zeros_ != MAP_FAILED && ftruncate(file_, kZeros + (1 << 20)) == 0 &&
           ftruncate(file_, 0) == 0;
  }
  void write(const at::Tensor& behind) {
    const auto zeros = at::from_blob(zeros_, {kZeros}, at::kByte);
    uint64_t at = 0;
    const auto bytes = write_torch_object(
        [&](std::span<const std::byte> part) {
          const bool is_hole = part.data() == zeros_;
          if (!is_hole) {
            ASSERT_EQ(pwrite(file_, part.data(), part.size(), static_cast<off_t>(at)),
                      static_cast<ssize_t>(part.size()));
          }
          at += part.size();
        },
        TorchObject(dict_of({{"zeros", zeros}, {"behind", behind}})));
    EXPECT_EQ(bytes, at);
  }

 private:
  int file_;
  void* zeros_;
};

// Sizes and offsets of more than 32 bits.
TEST(TorchWriterTest, WritesFilesOfMoreThan4GiB) {
  const TempDir folder;
  const auto path = folder.file("huge.pt");
  HugeTorchFile huge(path);
  if (!huge.is_possible()) GTEST_SKIP() << "needs a disk with sparse files of more than 4 GiB";
  const auto behind = expected().at("images");
  huge.write(behind);

  const ZipFile zip(path);
  const auto* zeros = zip.find("archive/data/0");
  ASSERT_NE(zeros, nullptr);
  EXPECT_EQ(zeros->bytes, static_cast<uint64_t>(HugeTorchFile::kZeros));
  EXPECT_GT(zip.find("archive/data/1")->header_offset, uint64_t{1} << 32);
  TorchFile file(path);
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].sizes, std::vector<int64_t>{HugeTorchFile::kZeros});
  support::expect_same_bits(file.read(file.tensors()[1]), behind.contiguous(), "behind");
}

// torch.load(weights_only=True) gives the tensors of the safetensors file beside it, and torch's
// own Distributed Checkpoint of them is read back.
TEST(TorchWriterTest, TorchOpensIt) {
  const auto python = support::python();
  if (python.empty() ||
      support::run_command(python + " -c 'import torch, safetensors' 2>&1").status != 0)
    GTEST_SKIP() << "set FOVEA_PYTHON to a Python with torch and safetensors";
  const TempDir folder;
  write_torch_file(folder.file("w.pt"), every_kind());
  nn::write_tensor_file(folder.file("w.safetensors"), every_kind());
  const auto result = support::run_command(
      fmt::format("{} {}/tests/weights/torch_check.py {} {} {} 2>&1", python, FOVEA_SOURCE_DIR,
                  folder.file("w.pt"), folder.file("w.safetensors"), folder.file("dcp")));
  ASSERT_EQ(result.status, 0) << result.output;
  const auto back = testing::by_name(read_weights_file(folder.file("dcp")).tensors);
  ASSERT_EQ(back.size(), every_kind().size());
  for (const auto& [name, tensor] : every_kind())
    support::expect_same_bits(back.at(name).contiguous(), tensor.contiguous(), name);
}

}  // namespace
}  // namespace fovea::weights
