// Where the members of a run may meet at this worker, should it be the first of them.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fovea/elastic/control/records.h"
#include "fovea/parallel/sockets.h"

namespace fovea::elastic {

// Each place is for one generation of members (parallel::Generation::listeners): once a plan has
// it, another one is offered. Safe from several threads.
class Offers {
 public:
  // address: of this machine, as other workers reach it. Throws RankError, SocketError.
  explicit Offers(std::string address);

  StoreRecord current() const;
  // Where a plan has taken the current place, another one is -> true.
  bool renew_after(const StoreRecord& taken);
  // Of one that was offered here, for as long as the last few are kept; null: it was not.
  const std::vector<parallel::Socket>* listeners_of(const StoreRecord& place) const;

 private:
  void make();

  std::string address_;
  mutable std::mutex mutex_;
  std::list<std::pair<StoreRecord, std::vector<parallel::Socket>>> places_;  // the newest one last
};

}  // namespace fovea::elastic
