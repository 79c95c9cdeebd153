// What training programs keep beside weights and the state of an optimizer: "epoch", "metric" ...
#pragma once

#include <string>
#include <vector>

#include "fovea/weights/torch_object.h"

namespace fovea::weights {

struct PlainValues {
  TorchDict values;  // by the keys of the outermost dict
  std::vector<std::string>
      left_out;  // keys of objects that are no plain values, such as a Namespace
};

// Of a file of torch.save, or a folder of torch.distributed.checkpoint: what holds no tensors, but
// for the optimizer that lies at `place`. Throws DataError.
PlainValues read_plain_values(const std::string& path, const std::string& place);

}  // namespace fovea::weights
