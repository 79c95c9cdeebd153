#include "fovea/data/datasets/numpy_pickle.h"

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

Pickle pickle_of(std::vector<uint8_t> bytes) {
  return {std::move(bytes), "p", {.names = numpy_pickle_names()}};
}

std::string text_of(const StoredArray& array) { return {array.bytes.begin(), array.bytes.end()}; }

TEST(NumpyPickleTest, ReadsWhatPythonWrites) {
  int count = 0;
  for (const auto& parts : golden_names("file.pickle", "data_volumes")) {
    if (!parts[2].starts_with("protocol")) continue;
    const Pickle pickle = pickle_of(golden_file("pickle." + parts[2]));
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
    const auto data = numpy_array(*root.find("data"), "p");
    EXPECT_EQ(data.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(text_of(data), "\x00\x01\x02\x03\x04\x05"s);
    const auto big = numpy_array(*root.find("big"), "p");
    EXPECT_EQ(big.type.order, std::endian::big);
    EXPECT_EQ(big.bytes.size(), 12u);
    EXPECT_EQ(root.find("none"), nullptr);
    ++count;
  }
  EXPECT_EQ(count, 4);
}

TEST(NumpyPickleTest, ReadsWhatPython2Wrote) {
  const Pickle pickle = pickle_of(golden_file("pickle.python2"));
  EXPECT_EQ(pickle.root().find("labels")->items[1]->integer, 2);
  EXPECT_EQ(numpy_array(*pickle.root().find("data"), "p").shape, (std::vector<int64_t>{6}));
}

TEST(NumpyPickleTest, RefusesPrograms) {
  EXPECT_THAT(message_of([] { pickle_of(golden_file("pickle.system")); }),
              HasSubstr("copy_reg.pickle"));
}

TEST(NumpyPickleTest, RefusesArraysOfObjects) {
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
  const Pickle pickle = pickle_of({bytes.begin(), bytes.end()});
  EXPECT_EQ(text_of(numpy_array(pickle.root(), "p")), "abc");
  const auto error_of = [](const std::string& text) {
    return message_of([&] { numpy_array(pickle_of({text.begin(), text.end()}).root(), "p"); });
  };
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

// A call of a known name is not an array yet.
TEST(NumpyPickleTest, RefusesWhatIsNoArray) {
  const auto error_of = [](const std::string& text) {
    return message_of([&] { numpy_array(pickle_of({text.begin(), text.end()}).root(), "p"); });
  };
  EXPECT_THAT(error_of("\x80\x02K\x01."s), HasSubstr("an int where a NumPy array belongs"));
  EXPECT_THAT(error_of("\x80\x02"
                       "cnumpy.core.multiarray\n_reconstruct\n)R."s),
              HasSubstr("a call where a NumPy array belongs"));
}

}  // namespace
}  // namespace fovea::data
