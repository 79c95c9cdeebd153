#include "fovea/html/html.h"

#include <gtest/gtest.h>

#include <limits>

#include "fovea/core/error.h"
#include "tests/support/html_checker.h"

namespace fovea {
namespace {

TEST(HtmlTest, EscapesEveryCharacterThatHtmlReads) {
  EXPECT_EQ(text("<script>alert('x') && \"y\"</script>").html,
            "&lt;script&gt;alert(&#39;x&#39;) &amp;&amp; &quot;y&quot;&lt;/script&gt;");
  EXPECT_EQ(element("a", {{"title", "\"><script>"}}, text("b")).html,
            "<a title=\"&quot;&gt;&lt;script&gt;\">b</a>");
}

TEST(HtmlTest, KeepsUtf8AndReplacesWhatIsNot) {
  const std::string kept = "\xC3\xA9 \xE6\xBC\xA2 \xF0\x9F\x90\x8D\n\t";
  EXPECT_EQ(escape_html(kept), kept);
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(escape_html("\xFF"), mark);
  EXPECT_EQ(escape_html("\xC3"), mark);                           // cut short
  EXPECT_EQ(escape_html("\xC0\xBC"), mark + mark);                // overlong <
  EXPECT_EQ(escape_html("\xED\xA0\x80"), mark + mark + mark);     // surrogate
  EXPECT_EQ(escape_html("\xF4\x90\x80\x80").substr(0, 3), mark);  // beyond U+10FFFF
  EXPECT_EQ(escape_html(std::string("a\0b\x1B", 4)), "a" + mark + "b" + mark);
}

TEST(HtmlTest, PagesAreWellFormedAndForbidTheNetwork) {
  Table content{.caption = "c & d", .headers = {"<a>", "b"}, .rows = {{text("1"), text("2")}}};
  const auto html = page("a <title>", section("one", "One", table(content)));
  const auto summary = support::check_html(html);
  EXPECT_EQ(summary.fault, "");
  EXPECT_EQ(summary.tags.at("caption"), 1);
  EXPECT_EQ(summary.tags.at("title"), 1);
  EXPECT_NE(html.find("default-src &#39;none&#39;"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);
  EXPECT_EQ(html.find("https://"), std::string::npos);
}

TEST(HtmlTest, TablesOfManyColumnsAreSetSmaller) {
  Table content{.caption = "c", .headers = std::vector<std::string>(8, "x"), .rows = {}};
  EXPECT_EQ(table(content).html.find("dense"), std::string::npos);
  content.headers.emplace_back("y");
  EXPECT_NE(table(content).html.find("class=\"scroll dense\""), std::string::npos);
}

TEST(HtmlTest, BodiesLinkThePartsThatThereAre) {
  const auto body = body_of_parts(
      "a <title>", "lead", figures({{"samples", "60,000"}}),
      {{"one", "One", section("one", "One", text("1"))}, {"two", "Two", {}}}, "the end");
  const auto summary = support::check_html(page("t", body));
  EXPECT_EQ(summary.fault, "");
  EXPECT_NE(body.html.find("href=\"#one\""), std::string::npos);
  EXPECT_EQ(body.html.find("#two"), std::string::npos);
  for (const char* part : {"a <title>", "lead", "60,000", "the end"}) {
    EXPECT_NE(summary.text.find(part), std::string::npos) << part;
  }
}

TEST(HtmlCheckerTest, FindsWhatIsNotWellFormed) {
  const std::string head = "<!DOCTYPE html>\n";
  EXPECT_EQ(support::check_html(head + "<p>a &amp; b</p>").fault, "");
  for (const char* bad : {"<p>", "<p></b></p>", "a & b", "<p class=x></p>", "a < b", "</p>"}) {
    EXPECT_NE(support::check_html(head + bad).fault, "") << bad;
  }
}

// RFC 4648, section 10.
TEST(Base64Test, GivesThePublishedVectors) {
  const std::vector<std::pair<std::string, std::string>> vectors = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg=="},
                                                                    {"fooba", "Zm9vYmE="},
                                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, encoded] : vectors) {
    EXPECT_EQ(base64_encode(bytes), encoded);
    EXPECT_EQ(base64_decode(encoded), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(base64_decode(base64_encode(all)), all);
}

TEST(Base64Test, RefusesWhatIsNot) {
  EXPECT_THROW(base64_decode("Zg="), DataError);
  EXPECT_THROW(base64_decode("Zg=a"), DataError);
  EXPECT_THROW(base64_decode("Z\"g="), DataError);
  EXPECT_THROW(base64_decode("===="), DataError);
}

TEST(HtmlTest, WritesNumbersForPeople) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(format_percent(91.256), "91.26 %");
  EXPECT_EQ(format_percent(nan), "\xE2\x80\x93");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-1000), "-1,000");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_bytes(812.0 * (1 << 20)), "812 MiB");
  EXPECT_EQ(format_bytes(1.5 * (1 << 30)), "1.5 GiB");
  EXPECT_EQ(format_significant(0.00001234), "1.234e-05");
  EXPECT_EQ(format_fixed(1.0 / 3, 2), "0.33");
}

}  // namespace
}  // namespace fovea
