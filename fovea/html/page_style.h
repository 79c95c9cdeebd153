// The style sheet and the script that every report carries.
#pragma once

#include <string_view>

namespace fovea::html {

extern const std::string_view kPageStyle;
// Shows the values of a chart under the pointer; the page is complete without it.
extern const std::string_view kPageScript;

}  // namespace fovea::html
