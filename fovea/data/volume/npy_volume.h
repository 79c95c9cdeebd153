// NumPy arrays as volumes and as images.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "fovea/data/volume/stored_array.h"
#include "fovea/data/volume/stored_volume.h"
#include "fovea/data/volume/volume_file.h"

namespace fovea::data {

// `file`: the whole .npy file. Throws DataError: see parse_npy_header; a shape that does not fit
// the bytes, or a size of 0.
StoredArray parse_npy(std::shared_ptr<const std::string> file, const std::string& source);

// What the dimensions of an array are: a letter for each, from N (samples), C, D, H and W, such as
// "NDHW" or "WHD" (an array whose axes are swapped). H and W must be there.
// Empty where `axes` is right for `dimensions` dimensions, else what is wrong.
std::string axes_fault(std::string_view axes, size_t dimensions);

// Sample `index` of the N dimension (0 where there is none). `shape` and `axes` agree.
StoredVolume volume_of_array(const std::string& source, std::span<const uint8_t> bytes,
                             const NumpyType& type, std::span<const int64_t> shape,
                             std::string_view axes, int64_t index);

// A .npy file of one volume, which is as long as its header says.
std::unique_ptr<VolumeFile> open_npy(const std::string& path, std::string_view axes);

}  // namespace fovea::data
