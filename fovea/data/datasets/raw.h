// Headerless binary volumes: the recipe says what the bytes are.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/datasets/volume_files.h"

namespace fovea::data {

struct RawConfig : VolumeFilesConfig {
  static constexpr std::string_view kName = "raw";
  std::string dtype = "float32";
  std::vector<int64_t> shape = {};
  std::string axes = "DHW";
  std::vector<int64_t> keep = {};
  int64_t offset = 0;
  std::string byte_order = "little";
  std::vector<double> spacing = {1, 1, 1};
  std::optional<std::string> mask_dtype = {};
  bool min_max = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_files(v, self);
    v.field("dtype", self.dtype, "type of the numbers", {.choices = scalar_type_names()});
    v.field("shape", self.shape, "sizes, the last one fastest", {.required = true});
    v.field(
        "axes", self.axes,
        "what the sizes are: a letter of N, C, D, H, W for each; with N a file holds many samples");
    v.field("keep", self.keep,
            "sizes that are kept, where rows or planes end in padding; default: shape");
    v.field("offset", self.offset, "where the numbers begin",
            {.min = 0, .max = 9007199254740992.0, .unit = "bytes"});
    v.field("byte_order", self.byte_order, "of the numbers", {.choices = {"little", "big"}});
    v.field("spacing", self.spacing, "between voxels along D, H, W, in millimetres");
    v.field(
        "mask_dtype", self.mask_dtype,
        "type of the numbers in mask files, which have the shape of the images without C; default: "
        "uint8");
    v.field("min_max", self.min_max, "scale each volume to [0, 1] by its minimum and maximum");
  }
  void validate(ConfigIssues& issues) const;
};

// Files are read at places and never mapped: mapped pages would count as memory of the process.
// Where `images` is empty it is "*.raw". Throws DataError: see find_volume_entries; a file whose
// size is not offset + numbers.
std::shared_ptr<const Dataset> build_raw_dataset(const RawConfig& config);

}  // namespace fovea::data
