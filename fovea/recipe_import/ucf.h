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
// Channels of the model's input; 0: the file does not say.
double ucf_channels(const Importer& in);

// Keys of the data section, whose values finish_ucf_data brings together.
ImportRule dataset_key();
ImportRule set_key(const std::string& target);
ImportRule channels_key();
ImportRule single_channel_key();
ImportRule tile_size_key();
ImportRule tiling_key(const std::string& target);
ImportRule resize_key();
void finish_ucf_data(Importer& in);

}  // namespace fovea::recipe_import
