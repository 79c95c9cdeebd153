// A strict little reader of HTML as our reports write it: every tag closed in order, attributes
// quoted, no stray < or & in text.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fovea::support {

struct HtmlSummary {
  std::map<std::string, int> tags;  // how often each was opened
  std::string text;                 // what stands outside of tags, scripts and styles, unescaped
  std::string fault;                // the first thing that is not well-formed; empty: none
};

HtmlSummary check_html(std::string_view html);

}  // namespace fovea::support
