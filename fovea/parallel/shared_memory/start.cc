#include "fovea/parallel/shared_memory/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/rank_error.h"
#include "fovea/parallel/shared_memory/ring.h"
#include "fovea/parallel/shared_memory/shared_file.h"
#include "fovea/parallel/shared_memory/shared_memory_backend.h"

namespace fovea::parallel {
namespace {

// Large enough that what a block of a small model sends is out at once, small enough to stay in a
// processor's last cache, through which it then goes.
constexpr size_t kRingBytes = size_t{4} << 20;
constexpr size_t kMostBytes = size_t{64} << 20;  // of all rings of a group
constexpr const char* kNoWish = "any";
constexpr size_t kMaxReason = 300;  // bytes, in messages
constexpr size_t kLeastRing = size_t{256} << 10;

size_t ring_bytes_of(int64_t num_ranks) {
  const auto share = kMostBytes / static_cast<size_t>(num_ranks) / kLeastRing * kLeastRing;
  return std::clamp(share, kLeastRing, kRingBytes);
}

// What tells a machine that runs from every other one, and from itself before a restart.
std::string machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "none" : id;
}

// What a rank tells the others of its group.
struct Offer {
  std::string wish = kNoWish;  // of FOVEA_COLLECTIVES
  std::string machine;
  SharedPlace place;
  std::string why_not;  // it has no file

  std::string text() const {
    return fmt::format("{} {} {} {} {} {}", wish, machine, place.process, place.file, place.token,
                       why_not);
  }
  static Offer from(const std::string& text) {
    Offer offer;
    std::istringstream words(text);
    words >> offer.wish >> offer.machine >> offer.place.process >> offer.place.file >>
        offer.place.token;
    if (!words) offer.why_not = "its offer is damaged";
    words.get();
    if (words) std::getline(words, offer.why_not);
    return offer;
  }
};

std::string wish_of(const GroupOptions& options) {
  return options.collectives.empty() ? kNoWish : options.collectives;
}

// Of a rank of the group, once it has told it.
std::string told_by(const KeyStore& store, const GroupOptions& options, const char* what,
                    int64_t rank) {
  const auto key = fmt::format("{}/{}", what, rank);
  if (!store.wait_for({key}, options.timeout).empty()) {
    throw RankError(
        fmt::format("rank {} of a group of {} did not come to share memory within "
                    "{:.0f} s (launch.timeout); look at its log",
                    rank, options.size, std::chrono::duration<double>(options.timeout).count()));
  }
  return store.find(key).value_or("");
}

void check_wishes(const Offer& own, const Offer& other, int64_t rank) {
  if (own.wish == other.wish) return;
  const auto said = [](const std::string& wish) {
    return wish == kNoWish ? "not set" : fmt::format("'{}'", printable_start(wish));
  };
  fail<ConfigError>("{} is {} here and {} for rank {} of a group; expected the same for all ranks",
                    kCollectivesVariable, said(own.wish), said(other.wish), rank);
}

// What speaks against it in what the others have told, the same for all ranks: where machines
// differ, each finds another one than its own.
std::string why_not_of(const std::vector<Offer>& offers, const Offer& own) {
  if (own.wish == kGlooCollectives) return fmt::format("{}=gloo", kCollectivesVariable);
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    const auto& other = offers[rank];
    if (other.machine != own.machine) return "the ranks are on several machines";
    if (!other.why_not.empty()) {
      return fmt::format("rank {} of the group: {}", rank,
                         printable_start(other.why_not, kMaxReason));
    }
  }
  return {};
}

// What this rank has to offer, and the file that it is of.
Offer make_offer(const GroupOptions& options, size_t ring_bytes, std::optional<SharedFile>& file) {
  Offer offer{.wish = wish_of(options), .machine = machine_id(), .place = {}, .why_not = {}};
  if (offer.wish == kGlooCollectives) return offer;
  try {
    file.emplace(SharedFile::make(shared_bytes(options.size, ring_bytes)));
    offer.place = file->place();
  } catch (const Error& error) {
    offer.why_not = error.what();
  }
  return offer;
}

// -> why it is not to be, the same on all ranks but for words; empty: all can.
std::string exchange_offers(KeyStore& store, const GroupOptions& options, const Offer& own,
                            std::vector<Offer>& offers) {
  std::string why_not;
  store.set(fmt::format("offer/{}", options.rank), own.text());
  for (int64_t rank = 0; rank < options.size; ++rank) {
    offers.push_back(Offer::from(told_by(store, options, "offer", rank)));
    check_wishes(own, offers.back(), rank);
    why_not = why_not_of(offers, own);
    // Whether others wish for something else is seen to the end, where that is all there is to see.
    if (!why_not.empty() && own.wish != kGlooCollectives) break;
  }
  return why_not;
}

// The others' files by rank, with one's own in its place. Throws Error.
std::vector<SharedFile> open_all(const std::vector<Offer>& offers, SharedFile own,
                                 int64_t own_rank) {
  const auto bytes = own.bytes();
  std::vector<SharedFile> files;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    if (static_cast<int64_t>(rank) == own_rank) {
      files.push_back(std::move(own));
    } else {
      files.push_back(SharedFile::open(offers[rank].place, bytes));
    }
  }
  return files;
}

// Each rank tells what kept it from opening the files. -> the first one of that.
std::string exchange_faults(KeyStore& store, const GroupOptions& options,
                            const std::string& fault) {
  std::string why_not;
  store.set(fmt::format("opened/{}", options.rank), fault);
  for (int64_t rank = 0; rank < options.size; ++rank) {
    const auto told = told_by(store, options, "opened", rank);
    if (told.empty() || !why_not.empty()) continue;
    why_not = fmt::format("rank {} of the group: {}", rank, printable_start(told, kMaxReason));
  }
  return why_not;
}

}  // namespace

std::unique_ptr<HostBackend> share_memory(KeyStore store, const GroupOptions& options,
                                          std::string& why_not) {
  const auto ring_bytes = ring_bytes_of(options.size);
  std::optional<SharedFile> file;
  const auto own = make_offer(options, ring_bytes, file);
  std::vector<Offer> offers;
  std::vector<SharedFile> files;
  why_not = exchange_offers(store, options, own, offers);
  if (why_not.empty()) {
    std::string fault;
    try {
      files = open_all(offers, *std::move(file), options.rank);
    } catch (const Error& error) {
      fault = error.what();
    }
    why_not = exchange_faults(store, options, fault);
  }
  if (why_not.empty()) {
    return make_shared_memory_backend(std::move(files), options.rank, ring_bytes);
  }
  if (own.wish == kSharedCollectives) {
    fail<ConfigError>("{}={}, but the ranks cannot share memory: {}", kCollectivesVariable,
                      kSharedCollectives, why_not);
  }
  return nullptr;
}

std::string why_no_shared_memory() {
  try {
    const auto bytes = shared_bytes(2, kRingBytes);
    const auto own = SharedFile::make(bytes);
    SharedFile::open(own.place(), bytes);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace fovea::parallel
