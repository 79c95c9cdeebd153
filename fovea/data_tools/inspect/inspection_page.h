// What an inspection found, as one HTML page with its pictures in it.
#pragma once

#include <string>

#include "fovea/data_tools/inspect/inspection.h"

namespace fovea::data {

// A whole document; needs no network and no other file. title: what was inspected.
std::string inspection_page(const Inspection& inspection, const std::string& title);

// The files that an inspection leaves in a folder: inspect.html, contact_sheet.png and, where there
// is something to show, augmented.png and tree.png. Makes the folder; older files of these names
// are replaced, or removed where there is nothing to show. Returns their paths. Throws Error.
std::vector<std::string> write_inspection(const Inspection& inspection, const std::string& title,
                                          const std::string& folder);

}  // namespace fovea::data
