// Names inside archives: what they may be, and how they stand in messages.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

// Throws DataError where a name is empty, absolute, holds ".." as a component, a backslash or a
// control character, or is longer than 4096 bytes: none of Fovea's formats needs one.
void check_archive_name(const std::string& archive, std::string_view name);

// "sets.npz:train_images.npy", with what is not printable as \xNN.
std::string archive_member(const std::string& archive, std::string_view name);

}  // namespace fovea
