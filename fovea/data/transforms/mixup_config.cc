#include "fovea/data/transforms/mixup_config.h"

#include <fmt/ranges.h>

namespace fovea::data {

void MixupConfig::validate(ConfigIssues& issues) const {
  if (cutmix_minmax.empty()) return;
  const bool is_range = cutmix_minmax.size() == 2 && cutmix_minmax[0] > 0 &&
                        cutmix_minmax[0] < cutmix_minmax[1] && cutmix_minmax[1] <= 1;
  if (!is_range) {
    issues.add("cutmix_minmax", fmt::format("[{}]; expected [least, largest], in 0 to 1",
                                            fmt::join(cutmix_minmax, ", ")));
  }
}

}  // namespace fovea::data
