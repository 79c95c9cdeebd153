// The keys that every optimizer has: which parameters decay, and learning rates that fall from the
// head down to the embeddings.
#pragma once

#include "fovea/config/fields.h"

namespace fovea::optim {

struct GroupConfig {
  bool decay_all = false;
  double layer_decay = 1.0;
  double layer_decay_min_scale = 0.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("decay_all", self.decay_all,
            "weight decay for every parameter, biases, norms and embeddings too, as a torch "
            "optimizer over model.parameters()");
    v.field("layer_decay", self.layer_decay,
            "learning rate of a layer over that of the layer above it; 1: the same for all",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("layer_decay_min_scale", self.layer_decay_min_scale,
            "smallest factor that layer_decay leaves", {.min = 0, .max = 1});
  }
};

}  // namespace fovea::optim
