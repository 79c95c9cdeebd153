// Every option of SAP.
#pragma once

#include <string_view>

#include "fovea/models/encoder_config.h"
#include "fovea/models/size_limits.h"

namespace fovea::models {

struct SapConfig {
  static constexpr std::string_view kName = "sap";

  EncoderConfig encoder = default_encoder();
  int64_t num_classes = 2;
  int64_t decoder_dim = 256;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("encoder", self.encoder, "the vision transformer, on adaptive patches");
    v.field("num_classes", self.num_classes, "classes of a pixel", {.min = 1, .max = kMaxClasses});
    v.field("decoder_dim", self.decoder_dim, "channels of a pixel before its classes",
            {.min = 1, .max = kMaxWidth});
  }
  void validate(ConfigIssues& issues) const;

 private:
  static EncoderConfig default_encoder() {
    EncoderConfig encoder;
    encoder.vit.patching = "adaptive";
    encoder.vit.pos_embed = "size_and_center";
    encoder.vit.class_token = false;
    return encoder;
  }
};

}  // namespace fovea::models
