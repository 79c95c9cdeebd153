// Arrays of a .npz file as tensors.
#pragma once

#include <string>

#include "fovea/nn/tensor_file.h"

namespace fovea::weights {

// Every member, under its name without ".npy"; names may hold '/'. Throws DataError: no zip
// archive, members that are no arrays of numbers, in Fortran order, or larger than their header
// says.
nn::NamedTensors read_npz(const std::string& path);

}  // namespace fovea::weights
