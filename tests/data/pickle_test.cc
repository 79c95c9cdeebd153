#include "fovea/core/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using Kind = PickleValue::Kind;
using testing::golden_file;
using testing::golden_names;
using testing::message_of;
using std::string_literals::operator""s;

std::string error_of(const std::string& text) {
  return message_of([&] { Pickle({text.begin(), text.end()}, "p"); });
}

TEST(PickleTest, ReadsWhatPythonWrites) {
  int count = 0;
  for (const auto& parts : golden_names("file.pickle", "data_volumes")) {
    if (!parts[2].starts_with("protocol")) continue;
    const Pickle pickle(golden_file("pickle." + parts[2]), parts[2]);
    const PickleValue& root = pickle.root();
    ASSERT_EQ(root.kind, Kind::kDict) << parts[2];
    const auto& labels = root.find("labels")->items;
    ASSERT_EQ(labels.size(), 8u);
    EXPECT_EQ(labels[1]->integer, 300);
    EXPECT_EQ(labels[2]->integer, 70000);
    EXPECT_EQ(labels[3]->integer, -5);
    EXPECT_EQ(labels[4]->integer, int64_t{1} << 40);
    EXPECT_EQ(labels[5]->kind, Kind::kBool);
    EXPECT_EQ(labels[6]->kind, Kind::kNone);
    EXPECT_EQ(labels[7]->number, 0.5);
    EXPECT_EQ(root.find("text")->text, "caf\xc3\xa9");
    EXPECT_EQ(root.find("bytes")->text, "\x00\xff\x00\xff\x00\xff"s);
    EXPECT_EQ(root.find("tuple")->items.size(), 3u);
    const PickleValue& data = *root.find("data");
    EXPECT_EQ(data.kind, Kind::kArray);
    EXPECT_EQ(data.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(data.text, "\x00\x01\x02\x03\x04\x05"s);
    EXPECT_EQ(root.find("big")->type.order, std::endian::big);
    EXPECT_EQ(root.find("big")->text.size(), 12u);
    EXPECT_EQ(root.find("none"), nullptr);
    ++count;
  }
  EXPECT_EQ(count, 4);
}

TEST(PickleTest, ReadsWhatPython2Wrote) {
  const Pickle pickle(golden_file("pickle.python2"), "p");
  EXPECT_EQ(pickle.root().find("labels")->items[1]->integer, 2);
  EXPECT_EQ(pickle.root().find("data")->shape, (std::vector<int64_t>{6}));
}

// Nothing is loaded or run: names are refused, each by itself.
TEST(PickleTest, RefusesPrograms) {
  EXPECT_THAT(error_of("\x80\x02"s + "cos\nsystem\n(U\x04trueq\x01tR."s),
              HasSubstr("it wants to load os.system, which is refused and was not run"));
  EXPECT_THAT(error_of("\x80\x04\x8c\x08"
                       "builtins\x8c\x04"
                       "eval\x93."s),
              HasSubstr("builtins.eval"));
  EXPECT_THAT(error_of("\x80\x02"
                       "cnumpy\nload\n."s),
              HasSubstr("numpy.load"));
  EXPECT_THAT(error_of("\x80\x02"
                       "cnumpy\x1b[31m\nload\n."s),
              HasSubstr("numpy?[31m.load"));
  EXPECT_THAT(message_of([] { Pickle(golden_file("pickle.system"), "p"); }),
              HasSubstr("copy_reg.pickle"));
  // INST, OBJ, NEWOBJ, PERSID, BINPERSID, EXT1, STRING (which is evaluated), INT.
  for (const char* opcode : {"i", "o", "\x81", "P", "Q", "\x82", "S", "I"}) {
    EXPECT_THAT(error_of("\x80\x02("s + opcode + "os\nsystem\n."),
                HasSubstr(fmt::format("opcode 0x{:02x} at offset 3",
                                      static_cast<unsigned char>(opcode[0]))));
  }
}

TEST(PickleTest, RefusesArraysOfObjects) {
  const auto array = [](const std::string& type, const std::string& state) {
    return "\x80\x02"
           "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01"
           "b\x87R(K\x01K\x03\x85"
           "cnumpy\ndtype\nU"s +
           std::string(1, static_cast<char>(type.size())) + type +
           "K\x00K\x01\x87R(K\x03U\x01|NNNJ"
           "\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"s +
           state + "tb."s;
  };
  const auto bytes = array("u1",
                           "\x89U\x03"
                           "abc"s);
  EXPECT_EQ(Pickle({bytes.begin(), bytes.end()}, "p").root().text, "abc");
  EXPECT_THAT(error_of(array("O8",
                             "\x89U\x03"
                             "abc"s)),
              HasSubstr("NumPy's type 'O8'"));
  EXPECT_THAT(error_of(array("u1",
                             "\x89U\x02"
                             "ab"s)),
              HasSubstr("sizes 3 with 2 bytes"));
  EXPECT_THAT(error_of(array("u1", "\x89]"s)), HasSubstr("other things than numbers"));
}

TEST(PickleTest, DamagedOnes) {
  EXPECT_THAT(error_of(""), HasSubstr("truncated"));
  EXPECT_THAT(error_of("hello"), HasSubstr("not a pickle of protocol 2 to 5"));
  EXPECT_THAT(error_of("\x80\x06N."s), HasSubstr("not a pickle of protocol 2 to 5"));
  EXPECT_THAT(error_of("\x80\x02N"s), HasSubstr("truncated"));
  EXPECT_THAT(error_of("\x80\x02X\xff\xff\xff\x7f"
                       "a."s),
              HasSubstr("truncated"));
  EXPECT_THAT(error_of("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff"
                       "a."s),
              HasSubstr("truncated"));
  EXPECT_THAT(error_of("\x80\x02."s), HasSubstr("its stack is empty"));
  EXPECT_THAT(error_of("\x80\x02(."s), HasSubstr("its stack is empty"));
  EXPECT_THAT(error_of("\x80\x02t."s), HasSubstr("without a beginning"));
  EXPECT_THAT(error_of("\x80\x02h\x05."s), HasSubstr("entry 5 of an empty memo"));
  EXPECT_THAT(error_of("\x80\x02NN."s), HasSubstr("left behind its end"));
  EXPECT_THAT(error_of("\x80\x02N.N"s), HasSubstr("left behind its end"));
  EXPECT_THAT(error_of("\x80\x02}(Nu."s), HasSubstr("items for a dict"));
  EXPECT_THAT(error_of("\x80\x02NNa."s), HasSubstr("items for None"));
  EXPECT_THAT(error_of("\x80\x02\x8a\x09xxxxxxxxx."s), HasSubstr("more than 64 bits"));
}

// A list that holds itself is legal, and is given back whole.
TEST(PickleTest, CyclesAreFreed) {
  const std::string text =
      "\x80\x02]q\x01h\x01"
      "a."s;
  const Pickle pickle({text.begin(), text.end()}, "p");
  EXPECT_EQ(pickle.root().items[0], &pickle.root());
}

}  // namespace
}  // namespace fovea::data
