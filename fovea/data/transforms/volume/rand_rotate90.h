// k quarter turns from the first axis of the plane towards the second, as numpy.rot90.
#pragma once

#include <algorithm>

#include "fovea/data/transforms/volume/volume_moves.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandRotate90Config {
  static constexpr std::string_view kName = "rand_rotate90";
  double prob = 0.1;
  int64_t max_k = 3;
  std::vector<int64_t> spatial_axes = {0, 1};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of a rotation", {.min = 0, .max = 1});
    v.field("max_k", self.max_k, "k is drawn from 1 to this", {.min = 1, .max = 3});
    v.field("spatial_axes", self.spatial_axes, "plane: 0 depth, 1 height, 2 width");
  }
  void validate(ConfigIssues& issues) const {
    check_axes("spatial_axes", spatial_axes, issues);
    if (spatial_axes.size() != 2) {
      issues.add("spatial_axes", listed(spatial_axes) + "; expected two axes");
    }
  }
  bool draws() const { return prob > 0; }
  ExtentRange output_range(const ExtentRange& in) const {
    const auto a = static_cast<size_t>(spatial_axes[0]);
    const auto b = static_cast<size_t>(spatial_axes[1]);
    ExtentRange out = in;
    out.least[a] = out.least[b] = std::min(in.least[a], in.least[b]);
    out.most[a] = out.most[b] = std::max(in.most[a], in.most[b]);
    return out;
  }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch&) const {
    if (!random.bernoulli(prob)) return;
    const int64_t k = random.below(static_cast<uint32_t>(max_k)) + 1;
    rotate90(item, k, static_cast<int>(spatial_axes[0]), static_cast<int>(spatial_axes[1]));
  }
};

}  // namespace fovea::data
