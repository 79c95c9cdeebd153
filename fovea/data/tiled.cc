#include "fovea/data/tiled.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <list>
#include <mutex>
#include <thread>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int64_t kScanThreads = 8;  // they wait for the disk most of the time
constexpr int64_t kSamplesAThread = 64;

// [samples]: tiles of each. Of several samples that cannot be cut, the first is named.
std::vector<int64_t> count_tiles(const Dataset& source, const TilingConfig& config) {
  const int64_t size = source.size();
  std::vector<int64_t> counts(static_cast<size_t>(size));
  std::mutex mutex;
  std::exception_ptr error;
  int64_t error_index = size;
  std::atomic<int64_t> next = 0;
  const auto scan = [&] {
    for (int64_t i = next++; i < size; i = next++) {
      try {
        counts[i] = Tiling(config, source.size_of(i)).count();
      } catch (const Error& what) {
        const std::lock_guard lock(mutex);
        if (i > error_index) continue;
        error_index = i;
        error = std::current_exception();
        next = size;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min(kScanThreads, size / kSamplesAThread); ++i) {
    threads.emplace_back(scan);
  }
  scan();
  for (std::thread& thread : threads) thread.join();
  if (!error) return counts;
  try {
    std::rethrow_exception(error);
  } catch (const DataError& what) {
    throw DataError(named_message(source, error_index, what));
  }
}

}  // namespace

// The samples that were asked for last, newest first. Threads that want one that is being read wait
// for it.
class TiledDataset::Cache {
 public:
  explicit Cache(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const Sample> get(const Dataset& source, int64_t index) {
    std::promise<std::shared_ptr<const Sample>> promise;
    {
      std::unique_lock lock(mutex_);
      const auto found = std::find_if(entries_.begin(), entries_.end(),
                                      [&](const Entry& entry) { return entry.index == index; });
      if (found != entries_.end()) {
        entries_.splice(entries_.begin(), entries_, found);
        const auto sample = found->sample;
        lock.unlock();
        return sample.get();
      }
      if (entries_.size() >= capacity_) entries_.pop_back();  // its users hold it
      entries_.push_front({index, promise.get_future().share()});
    }
    try {
      auto sample = std::make_shared<Sample>();
      source.read(index, *sample);
      promise.set_value(sample);
      return sample;
    } catch (...) {
      promise.set_exception(std::current_exception());
      const std::lock_guard lock(mutex_);
      entries_.remove_if([&](const Entry& entry) { return entry.index == index; });
      throw;
    }
  }

 private:
  struct Entry {
    int64_t index;
    std::shared_future<std::shared_ptr<const Sample>> sample;
  };

  size_t capacity_;
  std::mutex mutex_;
  std::list<Entry> entries_;
};

TiledDataset::TiledDataset(std::shared_ptr<const Dataset> source, const TilingConfig& config)
    : source_(std::move(source)),
      config_(config),
      ends_(count_tiles(*source_, config)),
      cache_(std::make_unique<Cache>(static_cast<size_t>(config.cached_samples))) {
  int64_t sum = 0;
  for (int64_t& end : ends_) end = sum += end;
}

TiledDataset::~TiledDataset() = default;

int64_t TiledDataset::sample_of(int64_t index) const {
  FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
  return std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
}

int64_t TiledDataset::first_tile(int64_t sample) const {
  return sample == 0 ? 0 : ends_.at(static_cast<size_t>(sample - 1));
}

int64_t TiledDataset::num_tiles(int64_t sample) const {
  return ends_.at(static_cast<size_t>(sample)) - first_tile(sample);
}

Tiling TiledDataset::tiling(int64_t sample) const {
  return Tiling(config_, source_->size_of(sample));
}

void TiledDataset::read(int64_t index, Sample& sample) const {
  const int64_t whole_index = sample_of(index);
  const auto whole = cache_->get(*source_, whole_index);
  const VolumeSize size = form() == SampleForm::kVolume
                              ? whole->volume.size
                              : VolumeSize{1, whole->image.height, whole->image.width};
  const Tiling tiling(config_, size);
  if (tiling.count() != num_tiles(whole_index)) {
    fail<DataError>(
        "{}: {}x{}x{} voxels in {} tiles, but {} tiles when the data set was opened; files must "
        "not change during a run",
        source_->describe(whole_index), size.depth, size.height, size.width, tiling.count(),
        num_tiles(whole_index));
  }
  extract_tile(*whole, form(), tiling.tile(index - first_tile(whole_index)), sample);
}

VolumeSize TiledDataset::size_of(int64_t index) const {
  return tiling(sample_of(index)).tile_size();
}

std::string TiledDataset::describe(int64_t index) const {
  const int64_t sample = sample_of(index);
  return fmt::format("{} tile {} of {}", source_->describe(sample), index - first_tile(sample),
                     num_tiles(sample));
}

}  // namespace fovea::data
