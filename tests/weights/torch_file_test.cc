#include "fovea/weights/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/core/files.h"
#include "tests/support/close.h"
#include "tests/support/zip_of.h"
#include "tests/weights/support.h"

namespace fovea::weights {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;
using testing::expected;
using testing::foreign_file;
using testing::refusal_of;
using testing::TempDir;

using Members = std::vector<std::pair<std::string, std::string>>;

std::string text_op(const std::string& text) {
  return "X"s + static_cast<char>(text.size()) + "\0\0\0"s + text;
}

// {"w": a tensor}, with its storage's class, number of elements, offset, size and stride to lie in.
struct TensorText {
  std::string storage = "torch\nFloatStorage";
  int elements = 6, offset = 0;
  std::string sizes = "K\x02K\x03\x86"s, strides = "K\x03K\x01\x86"s;

  std::string tensor() const {
    return "ctorch._utils\n_rebuild_tensor_v2\n(("s + text_op("storage") + "c" + storage + "\n" +
           text_op("0") + text_op("cpu") + "K" + static_cast<char>(elements) + "tQK" +
           static_cast<char>(offset) + sizes + strides + "\x89" + "ccollections\nOrderedDict\n)RtR";
  }
  std::string pickle() const { return "\x80\x02}("s + text_op("w") + tensor() + "u."; }
};

class TorchFileTest : public ::testing::Test {
 protected:
  std::string file_with(const std::string& pickle,
                        const Members& more = {{"a/data/0", six_floats()}}) {
    Members members = {{"a/data.pkl", pickle}, {"a/version", "3\n"}};
    members.insert(members.end(), more.begin(), more.end());
    return folder_.write("w.pt", support::stored_zip(members));
  }
  static std::string six_floats() {
    const std::vector<float> values = {0, 1, 2, 3, 4, 5};
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  static std::string refusal(const std::string& path) {
    return refusal_of([&] {
      TorchFile file(path);
      for (const auto& tensor : file.tensors()) file.read(tensor);
    });
  }

  TempDir folder_;
};

TEST_F(TorchFileTest, ReadsEveryKindOfTensorInBothForms) {
  const auto golden = expected().group("torch_kinds");
  for (const auto* name : {"torch_kinds.pt", "torch_kinds_legacy.pt"}) {
    TorchFile file(foreign_file(name));
    int count = 0;
    for (const auto& tensor : file.tensors()) {
      EXPECT_EQ(tensor.top, "model");
      const auto short_name = tensor.name.substr(std::string("model.").size());
      support::expect_same_bits(file.read(tensor).contiguous(), golden.at(short_name), tensor.name);
      ++count;
    }
    EXPECT_EQ(count, 15) << name;
    EXPECT_EQ(file.num_others(), 1) << "the step";
  }
}

// Two views of one storage share its memory, as they did.
TEST_F(TorchFileTest, ViewsOfAStorageShareIt) {
  TorchFile file(foreign_file("torch_kinds.pt"));
  std::map<std::string, at::Tensor> tensors;
  for (const auto& tensor : file.tensors()) tensors[tensor.name] = file.read(tensor);
  EXPECT_EQ(tensors.at("model.rows").storage().data(),
            tensors.at("model.transposed").storage().data());
}

TEST_F(TorchFileTest, ReadsATensorWrittenByHand) {
  TorchFile file(file_with(TensorText{}.pickle()));
  ASSERT_EQ(file.tensors().size(), 1U);
  EXPECT_EQ(file.read(file.tensors().front()).select(0, 1).select(0, 2).item<float>(), 5.0F);
}

// Nothing is loaded or run: each name is refused by itself.
TEST_F(TorchFileTest, RefusesPrograms) {
  for (const auto& [pickle, name] : std::vector<std::pair<std::string, std::string>>{
           {"\x80\x02"s + "cos\nsystem\n" + text_op("touch owned") + "\x85R.", "os.system"},
           {"\x80\x02"s + "cbuiltins\neval\n" + text_op("1") + "\x85R.", "builtins.eval"},
           {"\x80\x02"s + "cposix\nsystem\n.", "posix.system"},
           {"\x80\x02"s + "ctorch\nload\n.", "torch.load"},
           {"\x80\x02"s + "ctorch._utils\n_rebuild_sparse_tensor\n.", "_rebuild_sparse_tensor"},
           {"\x80\x04"s + "\x8c\x02os\x8c\x06system\x93.", "os.system"}}) {
    EXPECT_THAT(refusal(file_with(pickle)), HasSubstr(name + ", which is refused and was not run"));
  }
  EXPECT_THAT(refusal(file_with("\x80\x02(S'x'\nios\nsystem\n.")), HasSubstr("opcode 0x53"));
  // The other form.
  std::ofstream(folder_.file("old.pt"), std::ios::binary)
      << "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02"s
      << "cos\nsystem\n.";
  EXPECT_THAT(refusal(folder_.file("old.pt")), HasSubstr("os.system, which is refused"));
}

TEST_F(TorchFileTest, RefusesViewsThatDoNotLieInTheirStorage) {
  const auto fault = [&](TensorText text) { return refusal(file_with(text.pickle())); };
  EXPECT_EQ(fault({}), "nothing was refused");
  EXPECT_THAT(fault({.offset = 1}), HasSubstr("do not lie within a storage of 6 elements"));
  EXPECT_THAT(fault({.strides = "K\x04K\x01\x86"}), HasSubstr("strides [4, 1]"));
  EXPECT_THAT(fault({.sizes = "K\x03K\x03\x86"}), HasSubstr("sizes [3, 3]"));
  // Larger than what it is a view of: a small file, a huge tensor.
  EXPECT_THAT(fault({.sizes = "M\xff\xffM\xff\xff\x86", .strides = "K\0K\0\x86"s}),
              HasSubstr("made to harm"));
  EXPECT_THAT(fault({.sizes = "J\xff\xff\xff\xffK\x03\x86"}), HasSubstr("numbers from 0"));
  EXPECT_THAT(fault({.sizes = "K\x06\x85"}), HasSubstr("strides [3, 1]"));
  EXPECT_THAT(fault({.sizes = "\x8a\x08\0\0\0\0\0\0\0\x40\x8a\x08\0\0\0\0\0\0\0\x40\x86"s}),
              HasSubstr("do not lie within"));
}

TEST_F(TorchFileTest, RefusesStoragesOfAnotherSize) {
  EXPECT_THAT(refusal(file_with(TensorText{.elements = 7}.pickle())),
              HasSubstr("storage 0 of 28 bytes is one of 24"));
  EXPECT_THAT(refusal(file_with(TensorText{}.pickle(), {})),
              HasSubstr("storage 0 of 24 bytes is missing"));
  EXPECT_THAT(refusal(file_with(TensorText{.storage = "torch\nSize"}.pickle())),
              HasSubstr("a storage of torch.Size"));
  EXPECT_THAT(refusal(file_with(TensorText{}.pickle(),
                                {{"a/data/0", six_floats()}, {"a/byteorder", "big"}})),
              HasSubstr("big-endian"));
}

TEST_F(TorchFileTest, RefusesDamage) {
  const auto path = file_with(TensorText{}.pickle());
  auto bytes = read_file(path, 1 << 20);
  auto flipped = bytes;
  flipped[flipped.find(six_floats()) + 5] ^= 1;
  std::ofstream(folder_.file("flipped.pt"), std::ios::binary) << flipped;
  EXPECT_THAT(refusal(folder_.file("flipped.pt")), HasSubstr("checksum"));
  for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{30}, size_t{4}}) {
    std::ofstream(folder_.file("cut.pt"), std::ios::binary) << bytes.substr(0, size);
    EXPECT_NE(refusal(folder_.file("cut.pt")), "nothing was refused") << size;
  }
  const auto legacy = read_file(foreign_file("torch_kinds_legacy.pt"), 1 << 20);
  for (const size_t size : {legacy.size() - 1, legacy.size() / 2, size_t{20}}) {
    std::ofstream(folder_.file("cut.pt"), std::ios::binary) << legacy.substr(0, size);
    EXPECT_THAT(refusal(folder_.file("cut.pt")), HasSubstr("truncated")) << size;
  }
}

TEST_F(TorchFileTest, RefusesOtherArchives) {
  folder_.write("script.pt", support::stored_zip({{"a/data.pkl", "x"}, {"a/constants.pkl", "x"}}));
  EXPECT_THAT(refusal(folder_.file("script.pt")), HasSubstr("TorchScript"));
  folder_.write("other.pt", support::stored_zip({{"a/readme", "x"}}));
  EXPECT_THAT(refusal(folder_.file("other.pt")), HasSubstr("without data.pkl"));
}

// Dicts that hold each other: without an end, and 2^40 times the same one.
TEST_F(TorchFileTest, RefusesTreesWithoutEnd) {
  EXPECT_THAT(refusal(file_with("\x80\x02}q\x01"s + text_op("a") + "h\x01s.")),
              HasSubstr("nested deeper"));
  std::string doubled = "\x80\x02(}q\x01"s;
  for (int i = 1; i <= 25; ++i) {
    doubled += "}q"s + static_cast<char>(i + 1) + "(" + text_op("a") + "h" + static_cast<char>(i) +
               text_op("b") + "h" + static_cast<char>(i) + "u";
  }
  EXPECT_THAT(refusal(file_with(doubled + "t.")), HasSubstr("again and again"));
}

}  // namespace
}  // namespace fovea::weights
