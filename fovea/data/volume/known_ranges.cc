#include "fovea/data/volume/known_ranges.h"

#include <cmath>

namespace fovea::data {
namespace {

// So that a run that is killed loses little, and a large list is not written for each volume.
constexpr std::chrono::seconds kSaveEvery(10);

}  // namespace

// As many digits as bring back the same bits.
std::string KnownFormat<ValueRange>::format(const ValueRange& range) {
  return fmt::format("{} {}", range.low, range.high);
}

bool KnownFormat<ValueRange>::take(std::string_view& line, ValueRange& range) {
  return take_number(line, range.low) && take_number(line, range.high) &&
         std::isfinite(range.low) && std::isfinite(range.high) && range.low <= range.high;
}

KnownRanges::KnownRanges(std::string root, std::string known_as, size_t samples)
    : root_(std::move(root)), known_as_(std::move(known_as)), ranges_(samples) {}

KnownRanges::~KnownRanges() {
  try {
    if (!news_.empty()) save();
  } catch (const std::exception&) {  // they are found again
  }
}

ValueRange KnownRanges::of_sample(int64_t index, const std::function<ValueRange()>& find) {
  const auto i = static_cast<size_t>(index);
  const std::lock_guard lock(locks_[i % locks_.size()]);
  if (!ranges_[i]) ranges_[i] = find();
  return *ranges_[i];
}

ValueRange KnownRanges::of_file(const std::string& path, const std::string& part,
                                const std::function<ValueRange()>& find) {
  const auto key = known_key(known_as_ + part, root_, path);
  const auto found = known_as_.empty() || !key ? std::nullopt : state_of(path);
  if (found) {
    if (const auto range = known(*key, found->state)) return *range;
  }
  const ValueRange range = find();
  if (found && found->is_settled()) add(*key, {found->state, range});
  return range;
}

std::optional<ValueRange> KnownRanges::known(const KnownKey& key, const FileState& state) {
  const std::lock_guard lock(lock_);
  const auto look_up = [&]() -> std::optional<ValueRange> {
    const auto entry = known_.find(key);
    if (entry == known_.end() || entry->second.state != state) return std::nullopt;
    return entry->second.value;
  };
  if (const auto range = look_up()) return range;
  // Another process may have found it meanwhile.
  const auto list = state_of(known_path(root_, KnownFormat<ValueRange>::kFile));
  if (!list || loaded_ == list->state) return std::nullopt;
  loaded_ = list->state;
  known_ = load_known<ValueRange>(root_);
  return look_up();
}

void KnownRanges::add(const KnownKey& key, const KnownFile<ValueRange>& entry) {
  const std::lock_guard lock(lock_);
  news_[key] = entry;
  if (!saved_ || std::chrono::steady_clock::now() - *saved_ > kSaveEvery) save();
}

void KnownRanges::save() {
  known_ = save_known(root_, news_);
  news_.clear();
  saved_ = std::chrono::steady_clock::now();
}

}  // namespace fovea::data
