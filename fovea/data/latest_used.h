// What is kept open or decoded of many samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

namespace fovea::data {

// The last `most` things that were asked for, by their numbers. Threads that want one that is being
// made wait for it.
template <class T>
class LatestUsed {
 public:
  explicit LatestUsed(int64_t most) : most_(most) {}

  // make() gives what is not kept; what it throws, the next one who asks tries again.
  template <class Make>
  std::shared_ptr<T> get(int64_t number, const Make& make) {
    const auto entry = entry_of(number);
    const std::lock_guard guard(entry->lock);
    if (!entry->made) entry->made = make();
    return entry->made;
  }

 private:
  struct Entry {
    std::mutex lock;
    std::shared_ptr<T> made;
  };

  std::shared_ptr<Entry> entry_of(int64_t number) {
    const std::lock_guard guard(lock_);
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const auto& entry) { return entry.first == number; });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      if (std::ssize(entries_) >= most_) entries_.pop_back();  // its users hold it
      entries_.emplace_front(number, std::make_shared<Entry>());
    }
    return entries_.front().second;
  }

  int64_t most_;
  std::mutex lock_;
  std::list<std::pair<int64_t, std::shared_ptr<Entry>>> entries_;  // the last one first
};

}  // namespace fovea::data
