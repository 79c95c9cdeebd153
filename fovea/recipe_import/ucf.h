// What the parts of UCF-VIT's table share.
#pragma once

#include <string>

#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {

constexpr const char* kNet = "model.net.init_args.";

// Which of its scripts the file is for: classification, mae, unetr, sap, diffusion.
std::string ucf_task(const Importer& in);
// Channels are variables, whose names the file has.
bool has_variables(const Importer& in);
// The first value of a dict by data set, or the value itself.
ConfigNode first_of_ucf_dict(const ConfigNode* node);

// data.*, from all keys that have to do with it.
void finish_ucf_data(Importer& in);

}  // namespace fovea::recipe_import
