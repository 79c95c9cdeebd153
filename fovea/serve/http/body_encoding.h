// Bodies that come compressed, as Content-Encoding says.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea::serve {

// `encoding`: identity or empty, gzip, deflate (as zlib writes it, or bare, as some do). Throws
// StatusError: 415 another one, 413 where it grows beyond `max_bytes`, 400 damaged.
std::string expand_body(std::string&& body, std::string_view encoding, size_t max_bytes);

}  // namespace fovea::serve
