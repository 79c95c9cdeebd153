// Every option of UNETR.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/models/encoder_config.h"
#include "fovea/models/size_limits.h"

namespace fovea::models {

struct UnetrConfig {
  static constexpr std::string_view kName = "unetr";

  EncoderConfig encoder;
  int64_t num_classes = 2;
  int64_t feature_size = 16;
  bool skip_connection = true;
  bool linear_decoder = false;
  bool res_block = true;
  bool conv_block = true;
  std::string upsample = "auto";
  std::string adaptive_map = "image";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("encoder", self.encoder, "the vision transformer that the decoder reads from");
    v.field("num_classes", self.num_classes, "classes of pixels or voxels, the background included",
            {.min = 2, .max = kMaxClasses});
    v.field("feature_size", self.feature_size,
            "channels at full size; 2, 4 and 8 times as many at the sizes below",
            {.min = 1, .max = kMaxWidth});
    v.field("skip_connection", self.skip_connection,
            "join the image and the tokens after a quarter, half and three quarters of the blocks; "
            "false: upsample the last tokens alone");
    v.field("linear_decoder", self.linear_decoder,
            "one linear layer a token, its values interpolated to full size; no convolutions");
    v.field("res_block", self.res_block, "add its input to a convolutional block's output");
    v.field("conv_block", self.conv_block,
            "a convolutional block after each upsampling of a skip connection");
    v.field("upsample", self.upsample,
            "auto: transposed convolutions up to the patch size where it is a power of two, else "
            "as resize; resize: UCF-VIT's, interpolation to full size before the last block where "
            "the patch size is not 16",
            {.choices = {"auto", "resize"}});
    v.field("adaptive_map", self.adaptive_map,
            "patching: adaptive: where the tokens go before the convolutions. image: onto a grid "
            "of patch_size over the image, each where its leaf lies; sequence: UCF-VIT's, in their "
            "order onto a square or cube, interpolated to full size before the last block",
            {.choices = {"image", "sequence"}});
  }

  void validate(ConfigIssues& issues) const;

  // Adaptive patches in their order, wherever they lie.
  bool is_sequence_map() const { return encoder.vit.is_adaptive() && adaptive_map == "sequence"; }
  // Its sides; empty where fixed_length is no square, of volumes no cube.
  std::vector<int64_t> sequence_sides() const;
  // By how much each of the four upsamplings makes each side grow: [4][sides], coarse to fine. With
  // is_resized() the product is not the patch size.
  std::array<std::vector<int64_t>, 4> strides() const;
  // Whether features are interpolated to the size of the images.
  bool is_resized() const;
  // The blocks whose tokens the skip connections take.
  std::array<int64_t, 3> skip_blocks() const;
};

}  // namespace fovea::models
