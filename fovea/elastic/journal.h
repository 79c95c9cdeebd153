// events.jsonl and samples/WORKER.jsonl of a run folder: what changed, and who computed what.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "fovea/checkpoint/publishing.h"
#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

inline constexpr const char* kEventsFile = "events.jsonl";

// The last generation that a run folder tells of; 0: none. Throws DataError: a line that is no
// event.
int64_t last_generation(const std::filesystem::path& folder);

class Journal {
 public:
  // may_publish: as TrainingLog's.
  Journal(std::filesystem::path folder, const std::string& worker, bool log_samples,
          std::function<checkpoint::Publishing()> may_publish);

  // Of the member that writes; until it may be written it waits.
  void add(const Event& event);
  // What waits, where it may be written now -> whether nothing waits any more.
  bool publish();
  // Before others count on what was computed. Throws WriteError.
  void add(const SampleLine& samples) const;
  bool logs_samples() const { return !samples_file_.empty(); }

 private:
  std::string events_file_, samples_file_;
  std::function<checkpoint::Publishing()> may_publish_;
  std::vector<std::string> waiting_;
};

}  // namespace fovea::elastic
