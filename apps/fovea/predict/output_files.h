// The files that `fovea predict` writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::app {

// `wanted`, or with a number behind it where it is taken: "a", "a_2".
std::string free_name(const std::string& wanted, std::set<std::string>& taken);

// Whole or not at all.
void write_png_file(const std::filesystem::path& path, const data::Image& image);

// volume: [C, D, H, W], as the model sees it -> NIfTI on its own grid, voxels of size 1.
void write_grid_volume(const std::filesystem::path& path, const at::Tensor& volume);

// Writes NAME.png of the pictures side by side into `folder`, and of volumes the last one as
// NAME.nii.gz: on the voxels of `file` (empty: there is none) where it has as many, else on the
// model's grid. -> the paths.
std::vector<std::string> write_pictures(const std::filesystem::path& folder,
                                        const std::string& name,
                                        const std::vector<at::Tensor>& pictures,
                                        const std::string& file, const train::Inference& inference);

}  // namespace fovea::app
