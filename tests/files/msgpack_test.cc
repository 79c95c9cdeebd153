#include "fovea/files/msgpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using Kind = MsgpackValue::Kind;

MsgpackValue parsed(const std::string& bytes) { return parse_msgpack(bytes, "tree"); }

std::string refusal(const std::string& bytes) {
  try {
    parsed(bytes);
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was refused";
}

using namespace std::string_literals;

// The bytes are those of the format's own table.
TEST(MsgpackTest, ReadsEveryKind) {
  EXPECT_EQ(parsed("\xC0").kind, Kind::kNil);
  EXPECT_EQ(parsed("\xC3").integer, 1);
  EXPECT_EQ(parsed("\xC2").kind, Kind::kBool);
  EXPECT_EQ(parsed("\x7F").integer, 127);
  EXPECT_EQ(parsed("\xE0").integer, -32);
  EXPECT_EQ(parsed("\xCC\xFF").integer, 255);
  EXPECT_EQ(parsed("\xCD\x01\x02").integer, 0x0102);
  EXPECT_EQ(parsed("\xCE\xFF\xFF\xFF\xFF").integer, 0xFFFFFFFF);
  EXPECT_EQ(parsed("\xCF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF").integer, INT64_MAX);
  EXPECT_EQ(parsed("\xD0\x80").integer, -128);
  EXPECT_EQ(parsed("\xD1\xFF\xFE").integer, -2);
  EXPECT_EQ(parsed("\xD2\xFF\xFF\xFF\xFD").integer, -3);
  EXPECT_EQ(parsed("\xD3\x80\0\0\0\0\0\0\0"s).integer, INT64_MIN);
  EXPECT_EQ(parsed("\xCA\x3F\x80\0\0"s).number, 1);
  EXPECT_EQ(parsed("\xCB\xC0\0\0\0\0\0\0\0"s).number, -2);
  EXPECT_EQ(parsed("\xA3"
                   "abc")
                .text,
            "abc");
  EXPECT_EQ(parsed("\xD9\x02"
                   "ab")
                .text,
            "ab");
  EXPECT_EQ(parsed("\xC4\x02"
                   "ab")
                .kind,
            Kind::kBytes);
  EXPECT_EQ(parsed("\xDA\0\x01z"s).text, "z");
  const auto list = parsed("\xDC\0\x02\x01\x93\x02\x03\x04"s);
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_EQ(list.items[1].items[2].integer, 4);
  const auto map = parsed(
      "\x82\xA1"
      "a\x01\xA1"
      "b\x91\xC0");
  EXPECT_EQ(map.find("a")->integer, 1);
  EXPECT_EQ(map.find("b")->items.size(), 1U);
  EXPECT_EQ(map.find("c"), nullptr);
  const auto fixed = parsed("\xD5\x01zz");
  EXPECT_EQ(fixed.kind, Kind::kExtension);
  EXPECT_EQ(fixed.integer, 1);
  EXPECT_EQ(fixed.text, "zz");
  EXPECT_EQ(parsed("\xC7\x03\xFFxyz").integer, -1);
}

TEST(MsgpackTest, RefusesWhatLies) {
  EXPECT_THAT(refusal(""), HasSubstr("truncated"));
  EXPECT_THAT(refusal("\xA3"
                      "ab"),
              HasSubstr("truncated"));
  EXPECT_THAT(refusal("\x01\x01"), HasSubstr("1 bytes behind"));
  EXPECT_THAT(refusal("\xC1"), HasSubstr("0xc1"));
  EXPECT_THAT(refusal("\xDD\xFF\xFF\xFF\xFF"), HasSubstr("a list of 4294967295 where 0 bytes"));
  EXPECT_THAT(refusal("\xDF\xFF\xFF\xFF\xFF\xA0\xA0"), HasSubstr("a map of"));
  EXPECT_THAT(refusal("\x81\x01\x01"), HasSubstr("a whole number for a key"));
  EXPECT_THAT(refusal("\x82\xA1"
                      "a\x01\xA1"
                      "a\x01"),
              HasSubstr("\"a\" twice"));
  EXPECT_THAT(refusal("\xCF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(refusal(std::string(100, '\x91') + "\xC0"), HasSubstr("deeper than 64"));
  EXPECT_THAT(refusal("\xDD\0\x50\0\0"s + std::string(0x500000, '\xC0')),
              HasSubstr("more than 4194304 values"));
}

}  // namespace
}  // namespace fovea
