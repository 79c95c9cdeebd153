// What a request line asks for.
#pragma once

#include <string>
#include <string_view>

namespace fovea::serve {

// "/v2/models/a%20b?x=1" -> "/v2/models/a b"; also of "http://host/v2"; "*" stays. Throws
// StatusError 400.
std::string path_of_target(std::string_view target);

}  // namespace fovea::serve
