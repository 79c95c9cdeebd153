// What data sets of whole arrays share: images, labels and masks stacked along the dimension N.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/volume/npy_volume.h"
#include "fovea/files/zip.h"

namespace fovea::data {

// Member `name`.npy of a .npz file. Throws DataError: there is none (naming those that are), and
// what check_unpacked_bytes, ZipFile::read and parse_npy throw.
StoredArray read_npz_array(const ZipFile& file, const std::string& name,
                           int64_t max_unpacked_bytes);

// What the dimensions of images are where the recipe does not say: [N, H, W]; [N, H, W, C] where C
// is 1, 3 or 4; else [N, D, H, W]; [N, C, D, H, W].
std::string guess_axes(const std::vector<int64_t>& shape);

// [N] or [N, 1]. Throws DataError: another shape, numbers that are not whole or below 0.
std::vector<int64_t> labels_of(const StoredArray& array);

struct ArraySet {
  StoredArray images;
  std::string axes;                  // of images, N first
  std::vector<int64_t> labels;       // [N] or empty
  std::optional<StoredArray> masks;  // images without C; nothing: none
  LabelRule rule;                    // num_classes; the rest is for masks
  std::vector<std::string> class_names;
  std::string name;  // for describe: "pathmnist.npz:train_images"
};

// Unsigned bytes without D are images, everything else volumes. Throws DataError: counts that
// differ, labels that are no classes, masks of another size.
std::shared_ptr<const Dataset> build_array_dataset(ArraySet set);

}  // namespace fovea::data
