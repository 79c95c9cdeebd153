// Brace expansion, as shells and WebDataset have it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// "a-{000..002}.tar" and "{x,y}/a.tar" to the names that they stand for, in order; several braces
// multiply, braces nest. {03..01} counts down, {0..6..2} in steps; a leading zero keeps the width.
// Braces around neither a range nor a list stay as they are. Throws ConfigError: more than a
// million names, braces that do not close.
std::vector<std::string> expand_braces(std::string_view pattern);

}  // namespace fovea
