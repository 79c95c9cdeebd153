#include "fovea/elastic/control/records.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/elastic/control/proposal.h"
#include "fovea/files/record_json.h"

namespace fovea::elastic {
namespace {

void check(const Plan& plan, const std::string& source) {
  if (std::find(std::begin(kReasons), std::end(kReasons), plan.reason) == std::end(kReasons)) {
    fail<DataError>("{}: reason '{}'; it is of another version of this program", source,
                    printable_start(plan.reason));
  }
  const auto& mesh = plan.mesh;
  for (const auto size : {mesh.dp_replicate, mesh.dp_shard, mesh.cp, mesh.tp}) {
    if (size < 1 || size > 1 << 20) fail<DataError>("{}: a mesh with an axis of {}", source, size);
  }
  for (size_t rank = 0; rank < plan.members.size(); ++rank) {
    const auto& [first, last, of] = plan.members[rank].share;
    if (plan.members[rank].rank != static_cast<int64_t>(rank)) {
      fail<DataError>("{}: member {} has rank {}", source, rank, plan.members[rank].rank);
    }
    if (first < 0 || last <= first || of < last || of > int64_t{1} << 40) {
      fail<DataError>("{}: member {} has the share {} to {} of {}", source, rank, first, last, of);
    }
  }
}
template <class Record>
void check(const Record&, const std::string&) {}

}  // namespace

template <class Record>
std::string to_json(const Record& record) {
  return json_text(record_json(record));
}

template <class Record>
Record from_json(std::string_view text, const std::string& source) {
  const auto raw = parse_json(text, source, 16, RepeatedNames::kRefused);
  Record record;
  read_record_json(JsonValue(raw, source), record, "; it is of another version of this program");
  check(record, source);
  return record;
}

#define FOVEA_RECORD(Record)                   \
  template std::string to_json(const Record&); \
  template Record from_json<Record>(std::string_view, const std::string&)
FOVEA_RECORD(Plan);
FOVEA_RECORD(WorkerRecord);
FOVEA_RECORD(Request);
FOVEA_RECORD(Orders);
FOVEA_RECORD(Commit);
FOVEA_RECORD(RunRecord);
FOVEA_RECORD(LeaderRecord);
FOVEA_RECORD(Event);
FOVEA_RECORD(SampleLine);
FOVEA_RECORD(RunPlace);
FOVEA_RECORD(Proposal);
#undef FOVEA_RECORD

std::string difference(const Identity& here, const Identity& run) {
  std::string text;
  const auto compare = [&](const char* what, const std::string& a, const std::string& b) {
    if (a == b) return;
    text += fmt::format("{}{}: '{}' here, '{}' in the run", text.empty() ? "" : "; ", what,
                        printable_start(a), printable_start(b));
  };
  compare("recipe", here.recipe, run.recipe);
  if (!run.data.empty()) compare("data", here.data, run.data);
  compare("version", here.version, run.version);
  return text;
}

std::string difference(const RunRecord& here, const RunRecord& there) {
  std::string text;
  const auto say = [&](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (here.dir != there.dir) {
    say(fmt::format("folder {} here, {} there", printable_start(here.dir),
                    printable_start(there.dir)));
  }
  // Of the recipes the lines that only one of them has; the first few.
  constexpr size_t kShown = 3;
  const auto lines_of = [](const std::string& recipe) {
    std::istringstream in(recipe);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  };
  const auto ours = lines_of(here.recipe), theirs = lines_of(there.recipe);
  size_t shown = 0;
  for (const auto& line : ours) {
    if (std::find(theirs.begin(), theirs.end(), line) != theirs.end()) continue;
    if (shown++ < kShown) say(fmt::format("'{}' here alone", printable_start(line)));
  }
  if (shown > kShown) say(fmt::format("and {} more lines of the recipe", shown - kShown));
  const auto other = difference(here.identity, there.identity);
  const bool is_told = shown > 0 && here.identity.data == there.identity.data &&
                       here.identity.version == there.identity.version;
  if (!other.empty() && !is_told) say(other);
  return text;
}

void check_name(const std::string& what, const std::string& name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  const bool is_good =
      !name.empty() && name.size() <= 100 && name.find_first_not_of(kAllowed) == std::string::npos;
  if (is_good) return;
  fail<ConfigError>("{} '{}'; expected 1 to 100 letters, digits, '_', '-' and '.'", what,
                    printable_start(name));
}

RunKeys::RunKeys(const std::string& run) : run_(run), prefix_("/fovea/" + run + "/") {
  check_name("name of a run", run);
}

}  // namespace fovea::elastic
