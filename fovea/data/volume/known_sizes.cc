#include "fovea/data/volume/known_sizes.h"

#include <optional>

#include "fovea/core/parallel_for.h"
#include "fovea/data/volume/stored_volume.h"

namespace fovea::data {
namespace {

constexpr int64_t kThreads = 8;  // they wait for the disk most of the time

}  // namespace

std::string KnownFormat<VolumeSize>::format(const VolumeSize& size) {
  return fmt::format("{} {} {}", size.depth, size.height, size.width);
}

bool KnownFormat<VolumeSize>::take(std::string_view& line, VolumeSize& size) {
  if (!take_number(line, size.depth) || !take_number(line, size.height) ||
      !take_number(line, size.width)) {
    return false;
  }
  return checked_voxels(size.sides()) > 0;
}

std::vector<VolumeSize> sizes_of_files(const std::string& root, const std::string& known_as,
                                       const std::vector<std::string>& paths,
                                       const std::function<VolumeSize(size_t)>& read) {
  const auto count = static_cast<int64_t>(paths.size());
  const bool is_kept = !known_as.empty() && count >= kLeastKnownSizes;
  const auto known = is_kept ? load_known<VolumeSize>(root) : KnownFiles<VolumeSize>();
  std::vector<VolumeSize> sizes(paths.size());
  std::vector<std::optional<FoundState>> read_states(paths.size());
  parallel_for(count, count < kLeastKnownSizes ? 1 : kThreads, [&](int64_t index) {
    const auto i = static_cast<size_t>(index);
    const auto found = is_kept ? state_of(paths[i]) : std::nullopt;
    const auto key = known_key(known_as, root, paths[i]);
    if (found && key) {
      const auto entry = known.find(*key);
      if (entry != known.end() && entry->second.state == found->state) {
        sizes[i] = entry->second.value;
        return;
      }
    }
    sizes[i] = read(i);
    if (found && key && found->is_settled()) read_states[i] = found;
  });
  KnownFiles<VolumeSize> news;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (read_states[i])
      news[*known_key(known_as, root, paths[i])] = {read_states[i]->state, sizes[i]};
  }
  if (!news.empty()) save_known(root, news);
  return sizes;
}

}  // namespace fovea::data
