// A small real set of volumes with masks: the MNI152 T1 template (Fonov et al. 2011, symmetric
// 09a) with its maps of grey and white matter, which the PyPI package nilearn carries.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace fovea::data {

struct Mni152Options {
  std::string wheel;      // nilearn-*.whl, as `pip download --no-deps nilearn` leaves it
  std::string out;        // gets train/ and val/, each with images/ and labels/
  int64_t num_slabs = 5;  // that the head is cut into from back to front (axis H)
  int64_t held_out = 3;   // of so many slabs in a row, the second one is for validation
};

struct Mni152Part {
  int64_t slabs = 0;
  std::array<int64_t, 3> voxels = {};  // of background, grey and white matter
};

struct Mni152Report {
  Mni152Part train, val;
};

// Crops the head, makes a class of each voxel (0: background, 1: grey matter, 2: white matter, the
// likeliest of the maps; what both leave is background) and writes slab_N.nii files, images as
// float32 and labels as int16, whose affine is that of the template at the slab's place. The two
// halves of a brain are alike, so slabs are cut across them, never between. Slabs are equally
// thick, but for the first, which gets the rest. Throws DataError: no such wheel, a member that is
// missing or of another size; ConfigError: numbers of slabs.
Mni152Report prepare_mni152(const Mni152Options& options);

}  // namespace fovea::data
