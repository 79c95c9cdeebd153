#include "fovea/weights/npz_file.h"

#include "fovea/core/error.h"
#include "fovea/files/archive_name.h"
#include "fovea/files/zip.h"

namespace fovea::weights {
namespace {

constexpr uint64_t kMaxArrayBytes = uint64_t{1} << 34;
constexpr std::string_view kEnding = ".npy";

}  // namespace

nn::NamedTensors read_npz(const std::string& path) {
  const ZipFile zip(path);
  nn::NamedTensors tensors;
  for (const auto& member : zip.members()) {
    const auto what = archive_member(path, member.name);
    if (!member.name.ends_with(kEnding)) {
      fail<DataError>("{}: no array; expected names that end in .npy", what);
    }
    auto name = member.name.substr(0, member.name.size() - kEnding.size());
    tensors.emplace_back(std::move(name), nn::npy_tensor(zip.read(member, kMaxArrayBytes), what));
  }
  return tensors;
}

}  // namespace fovea::weights
