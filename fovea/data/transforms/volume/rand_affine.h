// Rotation, shear, translation and scale about the centre, in one resampling: trilinear for values,
// nearest for the mask.
#pragma once

#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_affine.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandAffineConfig {
  static constexpr std::string_view kName = "rand_affine";
  double prob = 0.1;
  std::vector<double> rotate_range = {};
  std::vector<double> shear_range = {};
  std::vector<double> translate_range = {};
  std::vector<double> scale_range = {};
  std::vector<int64_t> spatial_size = {-1};
  std::string mode = "bilinear";
  std::string padding_mode = "reflection";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of a random transform; else only spatial_size holds",
            {.min = 0, .max = 1});
    v.field("rotate_range", self.rotate_range,
            "angles about the D, H and W axis: three numbers r for [-r, r), or six: least and "
            "largest of each; empty: none",
            {.unit = "radians"});
    v.field("shear_range", self.shear_range,
            "factors of H and W in D, of D and W in H, of D and H in W: six numbers s for [-s, "
            "s), or twelve: least and largest of each; empty: none");
    v.field("translate_range", self.translate_range,
            "shifts along D, H and W: three numbers t for [-t, t), or six: least and largest of "
            "each; empty: none",
            {.unit = "voxels"});
    v.field("scale_range", self.scale_range,
            "1 is added: three numbers s for [1 - s, 1 + s), or six: least and largest of each; "
            "above 1 shrinks what is shown; empty: none");
    v.field("spatial_size", self.spatial_size,
            "side that comes out, or [depth, height, width]; 0 or -1: the volume's",
            {.unit = "voxels", .one_is_list = true});
    v.field("mode", self.mode, "how values are resampled; bilinear is trilinear in 3-D",
            {.choices = {"bilinear", "nearest"}});
    v.field("padding_mode", self.padding_mode, "what lies outside the volume",
            {.choices = {"zeros", "border", "reflection"}});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return prob > 0; }
  ExtentRange output_range(const ExtentRange& in) const { return exactly(spatial_size, in); }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const;
};

// What rand_affine draws; nullopt: nothing this time.
std::optional<AffineParams> draw_affine(const RandAffineConfig& config, RandomStream& random);

}  // namespace fovea::data
