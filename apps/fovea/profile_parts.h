// Parts of `fovea profile` that run in processes of their own: this program again, with the same
// command line and a variable that says which part it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/elastic/profile/memory_search.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {

struct ProfilePart {
  std::string kind{};              // "memory": trials; "collectives": of the ranks of this machine
  std::string device{};            // "cpu", "cuda:1"
  std::vector<int64_t> numbers{};  // batches, or bytes
  int64_t growth_bytes = 0;        // of memory, see run_memory_trials
  double pause = 0;                // s between measurements
  std::string out{};               // file of what was found, a line each

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("kind", self.kind);
    v.field("device", self.device);
    v.field("numbers", self.numbers);
    v.field("growth_bytes", self.growth_bytes);
    v.field("pause", self.pause);
    v.field("out", self.out);
  }
};

// That of this process; nothing: it is the command itself.
std::optional<ProfilePart> own_profile_part();
void run_profile_part(const ProfilePart& part, train::TrainConfig config);

// Of the processes that are started. What ends for lack of memory, by itself or by the system, is a
// batch that does not fit. Throws Error where one ends otherwise than it should.
std::vector<elastic::MemoryTrial> try_batches_apart(const ProfilePart& part);
std::vector<elastic::CommunicationPoint> collectives_of_processes(const ProfilePart& part,
                                                                  int64_t processes);

// The recipe on one device ("cpu", "cuda", "cuda:1"), which is this process's from now on, with the
// dtype that it has there. Throws ConfigError for a device that is not there.
train::TrainConfig on_device(train::TrainConfig config, const std::string& device);
void pause_for(double seconds);

}  // namespace fovea::app
