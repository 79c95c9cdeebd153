// Whether something may be part of a recorded step; see Note [Recorded steps] in host_part.h.
#pragma once

#include <string>

namespace fovea::kernels {

struct Recordable {
  // Why it may not, to go on from "steps are not recorded, as"; empty: it may.
  std::string why_not = {};

  explicit operator bool() const { return why_not.empty(); }
};

}  // namespace fovea::kernels
