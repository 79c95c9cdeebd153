// For debugging: ranks compare what they are about to do before they do it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/parallel/key_store.h"
#include "fovea/parallel/watch.h"

namespace fovea::parallel {

// Note [Collectives that differ]
// Ranks that call other collectives, or other sizes, wait for each other for ever, end within
// Gloo, or add what does not belong together. So each rank tells the others of its group the next
// one through the store, and starts it when all have told the same. Two slots a rank are enough:
// who writes number k + 2 has read everybody's k + 1, and who wrote k + 1 had read everybody's k.
class CollectiveCheck {
 public:
  // store: of this group alone, with a connection of its own. members: the ranks of the group as
  // the world numbers them. `watch` outlives it.
  CollectiveCheck(KeyStore store, std::vector<int64_t> members, int64_t own,
                  std::chrono::milliseconds timeout, Watch& watch);

  // Returns once all ranks of the group are about to do the same as `collective`, this rank's next
  // one in words. Throws Error where one is about to do something else, naming the first
  // collective that differs, both ranks and what each has; RankError where one does not come.
  void agree(const std::string& collective);

 private:
  bool has_all(const std::string& collective);
  std::string key_of(int64_t member, int64_t number) const;

  KeyStore store_;
  std::vector<int64_t> members_;
  int64_t own_;
  std::chrono::milliseconds timeout_;
  Watch& watch_;
  int64_t number_ = 0;  // of collectives of this group that were agreed on
  size_t next_ = 0;     // member whose turn it is to be read
};

}  // namespace fovea::parallel
