#include "apps/fovea/predict/output_files.h"

#include <fmt/format.h>

#include "fovea/core/atomic_file.h"
#include "fovea/data/formats/nifti.h"
#include "fovea/data/png.h"

namespace fovea::app {

std::string free_name(const std::string& wanted, std::set<std::string>& taken) {
  auto name = wanted;
  for (int64_t number = 2; !taken.insert(name).second; ++number) {
    name = fmt::format("{}_{}", wanted, number);
  }
  return name;
}

void write_png_file(const std::filesystem::path& path, const data::Image& image) {
  const auto png = data::encode_png(image);
  write_file_atomic(path.string(), {reinterpret_cast<const char*>(png.data()), png.size()});
}

void write_grid_volume(const std::filesystem::path& path, const at::Tensor& volume) {
  const auto values = volume.to(at::kCPU, at::kFloat).contiguous();
  data::Volume out{values.size(0), {values.size(1), values.size(2), values.size(3)}, {1, 1, 1}, {}};
  out.values.assign(values.const_data_ptr<float>(),
                    values.const_data_ptr<float>() + values.numel());
  data::write_nifti(path.string(), out, data::affine_of_spacing(out.spacing));
}

}  // namespace fovea::app
