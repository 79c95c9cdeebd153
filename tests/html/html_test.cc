#include "fovea/html/html.h"

#include <gtest/gtest.h>

#include "tests/support/html_checker.h"

namespace fovea {
namespace {

TEST(HtmlTest, EscapesEveryCharacterThatHtmlReads) {
  EXPECT_EQ(html::text("<script>alert('x') && \"y\"</script>").html,
            "&lt;script&gt;alert(&#39;x&#39;) &amp;&amp; &quot;y&quot;&lt;/script&gt;");
  EXPECT_EQ(html::element("a", {{"title", "\"><script>"}}, html::text("b")).html,
            "<a title=\"&quot;&gt;&lt;script&gt;\">b</a>");
}

TEST(HtmlTest, KeepsUtf8AndReplacesWhatIsNot) {
  const std::string kept = "\xC3\xA9 \xE6\xBC\xA2 \xF0\x9F\x90\x8D\n\t";
  EXPECT_EQ(html::escape_html(kept), kept);
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(html::escape_html("\xFF"), mark);
  EXPECT_EQ(html::escape_html("\xC3"), mark);                           // cut short
  EXPECT_EQ(html::escape_html("\xC0\xBC"), mark + mark);                // overlong <
  EXPECT_EQ(html::escape_html("\xED\xA0\x80"), mark + mark + mark);     // surrogate
  EXPECT_EQ(html::escape_html("\xF4\x90\x80\x80").substr(0, 3), mark);  // beyond U+10FFFF
  EXPECT_EQ(html::escape_html(std::string("a\0b\x1B", 4)), "a" + mark + "b" + mark);
}

TEST(HtmlTest, PagesAreWellFormedAndForbidTheNetwork) {
  html::Table content{
      .caption = "c & d", .headers = {"<a>", "b"}, .rows = {{html::text("1"), html::text("2")}}};
  const auto html = html::page("a <title>", html::section("one", "One", html::table(content)));
  const auto summary = support::check_html(html);
  EXPECT_EQ(summary.fault, "");
  EXPECT_EQ(summary.tags.at("caption"), 1);
  EXPECT_EQ(summary.tags.at("title"), 1);
  EXPECT_NE(html.find("default-src &#39;none&#39;"), std::string::npos);
  EXPECT_EQ(html.find("http://"), std::string::npos);
  EXPECT_EQ(html.find("https://"), std::string::npos);
}

TEST(HtmlTest, TablesOfManyColumnsAreSetSmaller) {
  html::Table content{.caption = "c", .headers = std::vector<std::string>(8, "x"), .rows = {}};
  EXPECT_EQ(html::table(content).html.find("dense"), std::string::npos);
  content.headers.emplace_back("y");
  EXPECT_NE(html::table(content).html.find("class=\"scroll dense\""), std::string::npos);
}

TEST(HtmlTest, BodiesLinkThePartsThatThereAre) {
  const auto body = html::body_of_parts(
      "a <title>", "lead", html::figures({{"samples", "60,000"}}),
      {{"one", "One", html::section("one", "One", html::text("1"))}, {"two", "Two", {}}},
      "the end");
  const auto summary = support::check_html(html::page("t", body));
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

}  // namespace
}  // namespace fovea
