#include "fovea/parallel/collective_check.h"

#include <charconv>
#include <thread>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/parallel/rank_wait.h"

namespace fovea::parallel {
namespace {

using std::chrono::microseconds;
using CheckClock = std::chrono::steady_clock;

constexpr microseconds kLongestPause{2000};  // between two looks into the store
constexpr size_t kMaxToldBytes = 1000;       // in a message

}  // namespace

CollectiveCheck::CollectiveCheck(KeyStore store, std::vector<int64_t> members, int64_t own,
                                 std::chrono::milliseconds timeout, Watch& watch)
    : store_(std::move(store)),
      members_(std::move(members)),
      own_(own),
      timeout_(timeout),
      watch_(watch) {}

std::string CollectiveCheck::key_of(int64_t member, int64_t number) const {
  return fmt::format("{}/{}", member, number % 2);
}

// Reads on from where the last call stopped. -> whether everybody has told the same.
bool CollectiveCheck::has_all(const std::string& collective) {
  for (; next_ < members_.size(); ++next_) {
    const auto member = members_[next_];
    if (member == own_) continue;
    const auto told = store_.find(key_of(member, number_)).value_or("");
    const auto end_of_number = told.find(' ');
    int64_t number = -1;
    std::from_chars(told.data(), told.data() + told.size(), number);
    if (number != number_) return false;  // not yet there
    const auto theirs = told.substr(end_of_number + 1);
    if (theirs == collective) continue;
    fail(
        "rank {}, step {}: collective {} of its group is {}, but that of rank {} is {}; expected "
        "the same on all ranks of a group, in the same order: a branch in the step depends on the "
        "rank or on its samples",
        own_, watch_.step(), number_, collective, member, printable_start(theirs, kMaxToldBytes));
  }
  return true;
}

void CollectiveCheck::agree(const std::string& collective) {
  store_.set(key_of(own_, number_), fmt::format("{} {}", number_, collective));
  next_ = 0;
  RankWait("the same from all ranks: " + collective, timeout_, watch_).until([&](auto patience) {
    const auto deadline = CheckClock::now() + patience;
    for (microseconds pause{50};; pause = std::min(2 * pause, kLongestPause)) {
      if (has_all(collective)) return true;
      if (CheckClock::now() > deadline) return false;
      std::this_thread::sleep_for(pause);
    }
  });
  number_ += 1;
}

}  // namespace fovea::parallel
