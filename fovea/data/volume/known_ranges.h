// The minimum and maximum of volumes that are scaled by them. A region has not the numbers that
// they are found by, so the whole volume is read for them, once: what was found is kept in this
// process, and for others and later runs beside the data set (known_files.h): ".fovea_ranges".
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/volume/known_files.h"
#include "fovea/data/volume/stored_volume.h"

namespace fovea::data {

template <>
struct KnownFormat<ValueRange> {
  static constexpr std::string_view kFile = ".fovea_ranges";
  static constexpr std::string_view kFirstLine = "fovea ranges 1";
  static constexpr std::string_view kColumns = "LOW HIGH";
  static std::string format(const ValueRange& range);
  static bool take(std::string_view& line, ValueRange& range);
};

// Of the samples of a data set, for any number of threads.
class KnownRanges {
 public:
  // known_as: see KnownKey; empty: nothing is kept beside the data set.
  KnownRanges(std::string root, std::string known_as, size_t samples);
  ~KnownRanges();  // saves
  KnownRanges(const KnownRanges&) = delete;
  KnownRanges& operator=(const KnownRanges&) = delete;

  // find(): of sample `index`. Threads that ask for one that is being found wait for it.
  ValueRange of_sample(int64_t index, const std::function<ValueRange()>& find);
  // What find() gives of a file, unless it is known. part: "[3]", of which frame; or empty.
  ValueRange of_file(const std::string& path, const std::string& part,
                     const std::function<ValueRange()>& find);

 private:
  std::optional<ValueRange> known(const KnownKey& key, const FileState& state);
  void add(const KnownKey& key, const KnownFile<ValueRange>& entry);
  void save();

  std::string root_, known_as_;
  std::vector<std::optional<ValueRange>> ranges_;
  std::array<std::mutex, 32> locks_;  // of ranges_

  std::mutex lock_;                      // of what follows
  std::optional<FileState> loaded_;      // the list that known_ came from
  KnownFiles<ValueRange> known_, news_;  // news: not saved yet
  std::optional<std::chrono::steady_clock::time_point> saved_;
};

}  // namespace fovea::data
