#include "fovea/serve/http/page.h"

#include <gmock/gmock.h>

#include <regex>

#include "fovea/serve/http/error_response.h"

namespace fovea::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PageTest, IsThereUnderAPolicyThatAllowsNothingOfOthers) {
  for (const auto& path : page_paths()) {
    const auto response = page_response(path);
    ASSERT_TRUE(response) << path;
    std::string policy;
    for (const auto& [name, value] : response->headers) {
      if (name == "Content-Security-Policy") policy = value;
    }
    EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
    EXPECT_THAT(response->body, Not(HasSubstr("http://")));
    EXPECT_THAT(response->body, Not(HasSubstr("https://")));
  }
  EXPECT_FALSE(page_response("/page"));
}

// What the policy would keep from working: handlers, styles and scripts within the page.
TEST(PageTest, KeepsItsOwnPolicy) {
  const auto html = page_response("/")->body;
  EXPECT_FALSE(std::regex_search(html, std::regex("\\son[a-z]+=|\\sstyle=|<style|<script>")));
  EXPECT_FALSE(
      std::regex_search(page_response("/page.js")->body,
                        std::regex("innerHTML|outerHTML|insertAdjacent|eval\\(|\\.style")));
}

TEST(PageTest, NamesNoFileThatIsNotThere) {
  const auto html = page_response("/")->body;
  const std::regex reference("(?:src|href)=\"([^\":]+)\"");
  int count = 0;
  for (std::sregex_iterator found(html.begin(), html.end(), reference), end; found != end;
       ++found) {
    EXPECT_TRUE(page_response("/" + (*found)[1].str())) << (*found)[1];
    ++count;
  }
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace fovea::serve
