#include "apps/fovea/predict/output_files.h"

#include <fmt/format.h>

#include <optional>

#include "fovea/data/datasets/input_files.h"
#include "fovea/data/image/png.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/files/atomic_file.h"
#include "fovea/inference/on_pixels.h"
#include "fovea/train/evaluate/reconstruction_picture.h"

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

std::vector<std::string> write_pictures(const std::filesystem::path& folder,
                                        const std::string& name,
                                        const std::vector<at::Tensor>& pictures,
                                        const std::string& file,
                                        const train::Inference& inference) {
  std::vector<std::string> files = {(folder / (name + ".png")).string()};
  std::filesystem::create_directories((folder / name).parent_path());
  write_png_file(files.back(), train::side_by_side(pictures));
  const auto& volume = pictures.back();
  if (volume.dim() != 4) return files;
  files.push_back((folder / (name + ".nii.gz")).string());
  const auto values = volume.to(at::kCPU, at::kFloat).contiguous();
  data::Volume given{values.size(0), {values.size(1), values.size(2), values.size(3)}, {}, {}};
  std::optional<data::InputVolume> place;
  if (!file.empty()) place = data::open_input_volume(file, inference.data_section());
  if (!place || given.size != place->given.size || !inference::only_scales(inference)) {
    write_grid_volume(files.back(), values);
    return files;
  }
  given.values.assign(values.const_data_ptr<float>(),
                      values.const_data_ptr<float>() + values.numel());
  data::write_nifti(files.back(), data::in_stored_order(given, *place), place->stored.affine);
  return files;
}

}  // namespace fovea::app
