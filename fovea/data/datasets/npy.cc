#include "fovea/data/datasets/npy.h"

#include <fmt/format.h>

#include "fovea/data/volume/npy_volume.h"

namespace fovea::data {

void NpyConfig::validate(ConfigIssues& issues) const {
  VolumeFilesConfig::validate(issues);
  const auto fault = axes_fault(axes, axes.size());
  if (!fault.empty()) issues.add("axes", fault);
  if (axes.find('N') != std::string::npos)
    issues.add("axes", fmt::format("\"{}\"; each file is one sample: leave N out", axes));
  const auto mask_fault =
      mask_axes.empty() ? std::string() : axes_fault(mask_axes, mask_axes.size());
  if (!mask_fault.empty()) issues.add("mask_axes", mask_fault);
}

std::shared_ptr<const Dataset> build_npy_dataset(const NpyConfig& config) {
  std::string mask_axes = config.mask_axes.empty() ? config.axes : config.mask_axes;
  if (config.mask_axes.empty()) std::erase(mask_axes, 'C');
  const auto opener = [](const std::string& axes) -> OpenVolume {
    return [axes](const std::string& path, std::optional<int64_t>) { return open_npy(path, axes); };
  };
  return build_volume_files_dataset(config, find_volume_entries(config, "*.npy"),
                                    {.open_image = opener(config.axes),
                                     .open_mask = opener(mask_axes),
                                     .may_have_regions = [](const std::string&) { return true; },
                                     .scales_to_unit_range = config.min_max,
                                     .ranges_known_as = "npy"});
}

}  // namespace fovea::data
