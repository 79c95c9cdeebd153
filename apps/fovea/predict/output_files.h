// The files that `fovea predict` writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>

#include "fovea/data/dataset.h"

namespace fovea::app {

// Whole or not at all.
void write_png_file(const std::filesystem::path& path, const data::Image& image);

// volume: [C, D, H, W], as the model sees it -> NIfTI on its own grid, voxels of size 1.
void write_grid_volume(const std::filesystem::path& path, const at::Tensor& volume);

}  // namespace fovea::app
