#include "fovea/data/datasets/repeated_keys.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fovea/files/checksum.h"

namespace fovea::data {

std::optional<RepeatedKey> find_repeated_key(int64_t size,
                                             const std::function<std::string_view(int64_t)>& key) {
  std::vector<std::pair<uint64_t, int64_t>> hashes(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) hashes[static_cast<size_t>(i)] = {checksum(key(i)), i};
  std::sort(hashes.begin(), hashes.end());
  std::optional<RepeatedKey> found;
  for (size_t start = 0; start < hashes.size();) {
    size_t end = start + 1;
    while (end < hashes.size() && hashes[end].first == hashes[start].first) ++end;
    // Equal hashes are equal keys but for once in 10^19.
    std::vector<std::pair<std::string, int64_t>> firsts;
    for (size_t i = start; end - start > 1 && i < end; ++i) {
      const int64_t sample = hashes[i].second;
      const std::string text(key(sample));
      const auto same = std::find_if(firsts.begin(), firsts.end(),
                                     [&](const auto& earlier) { return earlier.first == text; });
      if (same == firsts.end()) {
        firsts.emplace_back(text, sample);
        continue;
      }
      if (!found) found = RepeatedKey{same->second, sample, 0};
      if (sample < found->second) {
        found->first = same->second;
        found->second = sample;
      }
      found->count += 1;
    }
    start = end;
  }
  return found;
}

}  // namespace fovea::data
