#include "fovea/models/follow_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace fovea::models {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// Of a tensor of so many dims; else null.
const std::vector<int64_t>* shape_of(const Shapes& shapes, const char* name, size_t dims) {
  const auto found = shapes.find(name);
  return found == shapes.end() || found->second.size() != dims ? nullptr : &found->second;
}

void follow_classes(int64_t& num_classes, const Shapes& shapes, std::vector<std::string>& changes) {
  const auto* head = shape_of(shapes, "head.weight", 2);
  if (head == nullptr || head->front() == num_classes) return;
  num_classes = head->front();
  changes.push_back(fmt::format("{} classes", num_classes));
}

// What is subtracted from channels that are not red, green and blue: the same of each.
std::vector<double> mean_of(const std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {sum / static_cast<double>(values.size())};
}

void follow_channels(VitConfig& vit, const Shapes& shapes, std::vector<std::string>& changes) {
  const auto* filters = shape_of(shapes, "patch_embed.proj.weight", 4);
  if (filters == nullptr || vit.has_variables() || (*filters)[1] == vit.in_chans) return;
  vit.in_chans = (*filters)[1];
  vit.input.mean = mean_of(vit.input.mean);
  vit.input.std = mean_of(vit.input.std);
  changes.push_back(fmt::format("{} channel{}", vit.in_chans, vit.in_chans == 1 ? "" : "s"));
}

// Of square images: another number of positions says nothing of two sides.
void follow_size(VitConfig& vit, const Shapes& shapes, std::vector<std::string>& changes) {
  const auto* positions = shape_of(shapes, "pos_embed", 3);
  const auto sides = vit.img_sides(), patch = vit.patch_sides();
  const bool is_square = sides.size() == 2 && sides[0] == sides[1] && patch[0] == patch[1];
  if (positions == nullptr || !is_square || vit.patching != "grid" || !vit.has_pos_table()) return;
  const auto tokens = (*positions)[1] - (vit.no_embed_class ? 0 : vit.num_prefix_tokens());
  const auto grid = std::llround(std::sqrt(static_cast<double>(std::max<int64_t>(tokens, 0))));
  const int64_t side = grid * patch[0];
  if (grid < 1 || grid * grid != tokens || sides[0] / patch[0] == grid) return;
  vit.img_size = {side};
  changes.push_back(fmt::format("images of {0} x {0}", side));
}

}  // namespace

FollowedConfig follow_weights(const ModelConfig& preset, const nn::NamedTensors& weights) {
  Shapes shapes;
  for (const auto& [name, tensor] : weights) shapes[name] = tensor.sizes().vec();
  FollowedConfig followed{preset, {}};
  if (const auto* vit = preset.get_if<VitConfig>()) {
    auto changed = *vit;
    follow_classes(changed.num_classes, shapes, followed.changes);
    follow_channels(changed, shapes, followed.changes);
    follow_size(changed, shapes, followed.changes);
    followed.config = {changed};
  } else if (const auto* t2t = preset.get_if<T2tVitConfig>()) {
    auto changed = *t2t;
    follow_classes(changed.num_classes, shapes, followed.changes);
    followed.config = {changed};
  }
  return followed;
}

}  // namespace fovea::models
