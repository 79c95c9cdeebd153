#include "fovea/core/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "fovea/core/error.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(JsonValueTest, NamesTheFileTheKeyWhatWasFoundAndWhatWasExpected) {
  const auto json = parse_json(
      R"({"a": {"n": -1.5, "big": 18446744073709551615, "list": [1, "two"]}, "t": 3})", "x.json");
  const JsonValue value(json, "x.json");
  const auto a = value.at("a");
  EXPECT_EQ(refusal([&] { a.at("n").integer(); }),
            "x.json: a.n: found -1.5; expected a whole number");
  EXPECT_EQ(refusal([&] { a.at("list").integers(); }),
            "x.json: a.list.1: found \"two\"; expected a whole number");
  EXPECT_EQ(refusal([&] { value.at("t").text(); }), "x.json: t: found 3; expected a text");
  EXPECT_EQ(refusal([&] { value.at("a").texts(); }),
            "x.json: a: found an object of 3; expected a list");
  EXPECT_THAT(refusal([&] { a.at("none"); }), HasSubstr("x.json: a: no \"none\""));
  EXPECT_THAT(refusal([&] { value.at("t").at("u"); }), HasSubstr("expected an object"));
  EXPECT_THAT(refusal([&] { a.at("big").integer(); }), HasSubstr("expected a whole number"));
  EXPECT_THAT(refusal([&] { a.at("big").count(); }), HasSubstr("expected a whole number from 0"));
  EXPECT_THAT(refusal([&] { value.members().back().second.boolean(); }),
              HasSubstr("true or false"));
}

TEST(JsonValueTest, GivesWhatIsThere) {
  const auto json = parse_json(R"({"t": "x", "n": 7, "none": null, "l": [0.5, null]})", "x");
  const JsonValue value(json, "x");
  std::string text;
  int64_t number = 1, kept = 2;
  value.read("t", text);
  value.read("n", number);
  value.read("not there", kept);
  EXPECT_EQ(text, "x");
  EXPECT_EQ(number, 7);
  EXPECT_EQ(kept, 2);
  EXPECT_TRUE(std::isnan(value.at("none").number()));
  EXPECT_EQ(value.at("l").numbers().front(), 0.5);
  EXPECT_FALSE(value.find("not there"));
}

TEST(ParseJsonTest, NamesTheFile) {
  EXPECT_THAT(refusal([] { parse_json("{\"a\": ", "x.json"); }), HasSubstr("x.json: not JSON"));
  EXPECT_THAT(refusal([] { parse_json("\"\xff\x1b[31m\"", "x.json"); }),
              ::testing::AllOf(HasSubstr("x.json: not JSON"), ::testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(refusal([] { parse_json(std::string(100'000, '['), "x.json", 3); }),
              HasSubstr("x.json: nested deeper than 3 levels"));
  EXPECT_TRUE(parse_json("{\"a\": ").is_discarded());
}

}  // namespace
}  // namespace fovea
