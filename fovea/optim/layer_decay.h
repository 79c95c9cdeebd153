// The keys that every optimizer has: learning rates that fall from the head down to the embeddings,
// and what weight decay is for.
#pragma once

#include "fovea/core/config_fields.h"

namespace fovea::optim {

struct LayerDecay {
  double layer_decay = 1.0;
  double layer_decay_min_scale = 0.0;
  bool decay_all = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("layer_decay", self.layer_decay,
            "learning rate of a layer over that of the layer above it; 1: the same for all",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("layer_decay_min_scale", self.layer_decay_min_scale,
            "smallest factor that layer_decay leaves", {.min = 0, .max = 1});
    v.field("decay_all", self.decay_all,
            "weight decay for biases, norms and embeddings too, as optax's without a mask");
  }
};

}  // namespace fovea::optim
