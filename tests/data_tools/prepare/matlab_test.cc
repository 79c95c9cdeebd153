#include "fovea/data_tools/prepare/matlab.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;

TEST(MatlabTest, ReadsWhatScipyWritesPlainAndCompressed) {
  for (const std::string kind : {"plain", "packed"}) {
    const auto variables = parse_matlab(golden("mat." + kind, "data_packed").bytes, "meta.mat");
    ASSERT_EQ(variables.size(), 1u) << kind;
    const auto& synsets = variables[0];
    EXPECT_EQ(synsets.name, "synsets");
    EXPECT_EQ(synsets.kind, MatlabArray::Kind::kStruct);
    EXPECT_THAT(synsets.sizes, ElementsAre(3, 1));
    ASSERT_EQ(synsets.size(), 3);
    EXPECT_EQ(synsets.fields.size(), 8u);
    EXPECT_EQ(synsets.field(0, "ILSVRC2012_ID").number(), 1);
    EXPECT_EQ(synsets.field(1, "WNID").text, "n02100735");
    EXPECT_EQ(synsets.field(1, "words").text, "English setter");
    EXPECT_EQ(synsets.field(0, "num_train_images").number(), 1300);
    EXPECT_THAT(synsets.field(2, "children").numbers, ElementsAre(1, 2));
    EXPECT_EQ(synsets.field(0, "children").size(), 0);
    EXPECT_THAT(message_of([&] { synsets.field(0, "none"); }), HasSubstr("no field \"none\""));
    EXPECT_THAT(message_of([&] { synsets.field(2, "children").number(); }),
                HasSubstr("2 numbers; expected one"));
  }
}

TEST(MatlabTest, OtherFilesAndDamageAreRefused) {
  const auto good = golden("mat.plain", "data_packed").bytes;
  const auto error = [](const std::vector<uint8_t>& bytes) {
    return message_of<DataError>([&] { parse_matlab(bytes, "meta.mat"); });
  };
  EXPECT_THAT(error({}), HasSubstr("meta.mat: fewer bytes than a header"));
  auto bytes = good;
  bytes[126] = 'M';
  bytes[127] = 'I';
  EXPECT_THAT(error(bytes), HasSubstr("another version, or big-endian"));
  bytes = good;
  bytes[125] = 2;  // HDF5
  EXPECT_THAT(error(bytes), HasSubstr("another version"));
  for (const size_t size : {130, 200, 300, 1000}) {
    EXPECT_THAT(error({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}),
                HasSubstr("truncated"));
  }
  auto packed = golden("mat.packed", "data_packed").bytes;
  packed[200] ^= 0xFF;
  EXPECT_THAT(error(packed), HasSubstr("meta.mat"));
}

}  // namespace
}  // namespace fovea::data
