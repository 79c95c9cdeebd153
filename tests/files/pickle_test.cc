#include "fovea/files/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;

constexpr std::array<std::string_view, 2> kNames = {"collections.OrderedDict", "a.b.c"};

Pickle pickle_of(const std::string& text, PickleOptions options = {.names = kNames}) {
  return {std::vector<uint8_t>(text.begin(), text.end()), "p", options};
}

std::string error_of(const std::string& text) {
  try {
    pickle_of(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was refused";
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
  // INST, OBJ, PERSID, BINPERSID, EXT1, STRING (which is evaluated), INT.
  for (const char* opcode : {"i", "o", "P", "Q", "\x82", "S", "I"}) {
    EXPECT_THAT(error_of("\x80\x02("s + opcode + "os\nsystem\n."),
                HasSubstr(fmt::format("opcode 0x{:02x} at offset 3",
                                      static_cast<unsigned char>(opcode[0]))));
  }
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
  const Pickle pickle = pickle_of(text);
  EXPECT_EQ(pickle.root().items[0], &pickle.root());
}

// A call stays a name with arguments, a state and items.
TEST(PickleTest, KeepsCallsOfKnownNames) {
  const Pickle pickle = pickle_of("\x80\x02"s + "ccollections\nOrderedDict\n)R(U\x01kK\x07u}b.");
  const auto& root = pickle.root();
  EXPECT_TRUE(root.is_call("collections.OrderedDict"));
  EXPECT_EQ(root.find("k")->integer, 7);
  EXPECT_EQ(root.state->kind, PickleValue::Kind::kDict);
  // NEWOBJ, with a module and a qualified name.
  const Pickle made = pickle_of("\x80\x04\x8c\x01"s + "a\x8c\x03" + "b.c\x93K\x05\x85\x81.");
  EXPECT_TRUE(made.root().is_call("a.b.c"));
  EXPECT_EQ(made.root().arguments->items[0]->integer, 5);
  EXPECT_THAT(error_of("\x80\x02K\x01)R."s), HasSubstr("a call of an int"));
  EXPECT_THAT(error_of("\x80\x02K\x01}b."s), HasSubstr("a state for an int"));
  EXPECT_THAT(error_of("\x80\x02"s + "ca.b\nc\n)R}b}b."), HasSubstr("a state for a call"));
}

TEST(PickleTest, KeepsPersistentIdsWhereTheyAreAllowed) {
  const auto pickle = pickle_of("\x80\x02K\x05Q."s, {.has_persistent_ids = true});
  EXPECT_EQ(pickle.root().kind, PickleValue::Kind::kPersistent);
  EXPECT_EQ(pickle.root().arguments->integer, 5);
}

TEST(PickleTest, EndsWhereItEnds) {
  const auto pickle = pickle_of("\x80\x02K\x05.more"s, {.may_go_on = true});
  EXPECT_EQ(pickle.end(), 5U);
}

}  // namespace
}  // namespace fovea
