// The page's text, style and script.
#pragma once

#include <string_view>

namespace fovea::serve {

extern const std::string_view kPageHtml, kPageCss, kPageJs;

}  // namespace fovea::serve
