// What a file's state of an optimizer lacks, in words.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::weights {

// Throws CheckpointError with the file in front.
template <class... Args>
[[noreturn]] void refuse_state(const std::string& path, fmt::format_string<Args...> format,
                               Args&&... args) {
  fail<CheckpointError>("{}: {}", path, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace fovea::weights
