// Bytes into a file of the system, however many calls that takes.
#pragma once

#include <cstddef>
#include <span>

namespace fovea {

// False: it cannot be written, and errno says why.
bool write_all(int file, std::span<const std::byte> bytes);

}  // namespace fovea
