// A model of one's own: docs/adding_a_model.md tells of each part.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/models/model.h"
#include "fovea/nn/linear.h"
#include "fovea/nn/mlp.h"
#include "fovea/nn/norm.h"
#include "fovea/nn/patch_embed.h"
#include "fovea/parallel/partitioning.h"

namespace examples {

using fovea::ConfigIssues;
using fovea::models::InputSpec;
using fovea::models::Model;
using fovea::models::ModelInput;
namespace nn = fovea::nn;
namespace parallel = fovea::parallel;

struct BagOfPatchesConfig {
  static constexpr std::string_view kName = "bag_of_patches";
  int64_t img_size = 28;
  int64_t patch_size = 7;
  int64_t in_chans = 1;
  int64_t num_classes = 10;
  int64_t embed_dim = 64;
  int64_t depth = 2;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("img_size", self.img_size, "side of the images", {.min = 1, .unit = "pixels"});
    v.field("patch_size", self.patch_size, "side of a patch", {.min = 1, .unit = "pixels"});
    v.field("in_chans", self.in_chans, "channels of the images", {.min = 1});
    v.field("num_classes", self.num_classes, "outputs of the head", {.min = 1});
    v.field("embed_dim", self.embed_dim, "token width D", {.min = 1});
    v.field("depth", self.depth, "number of blocks", {.min = 1});
  }

  void validate(ConfigIssues& issues) const {
    if (img_size % patch_size == 0) return;
    issues.add(
        "patch_size", {"img_size"},
        fmt::format("{} does not divide img_size {}; choose one that does", patch_size, img_size));
  }
};

// B batch, C channels, N patches, D embed_dim. A vision transformer without attention: each patch
// votes on its own.
class BagOfPatches : public Model {
 public:
  explicit BagOfPatches(const BagOfPatchesConfig& config, at::Device device = at::kCPU);

  std::string_view recipe_name() const override { return BagOfPatchesConfig::kName; }
  at::Tensor forward(const ModelInput& input) const override;  // [B, C, H, W] -> [B, num_classes]
  void init_parameter(const std::string& name, const at::Tensor& value,
                      uint64_t seed) const override;
  InputSpec input_spec() const override;
  int64_t num_classes() const override { return config_.num_classes; }
  std::vector<std::string> no_weight_decay() const override { return {}; }
  int64_t layer_id(const std::string& parameter_name) const override;
  int64_t num_layers() const override { return config_.depth + 2; }

 private:
  BagOfPatchesConfig config_;
  nn::PatchEmbed patch_embed_ = nullptr;
  std::vector<nn::Mlp> blocks_;
  nn::Norm norm_ = nullptr;
  nn::Linear head_ = nullptr;
};

// How its layers are shared out over processes.
parallel::Partitioning partitioning_of(const BagOfPatchesConfig& config);

}  // namespace examples
