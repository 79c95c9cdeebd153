// The files of a folder and of the folders in it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/files/unread_files.h"

namespace fovea {

// Paths below `folder` of all files, at any depth, for which is_read(name) is true, sorted as
// bytes. Hidden files and folders are left out, links to folders not followed; `unread` gets the
// other files but is_data_of_header, under names that begin with the folder's own. Throws DataError
// where a folder cannot be listed.
std::vector<std::string> list_files_below(
    const std::string& folder, const std::function<bool(const std::string& name)>& is_read,
    UnreadFiles& unread);

}  // namespace fovea
