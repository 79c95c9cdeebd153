// All processes of a run: how they find each other, and how they end together.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/parallel/communicator.h"
#include "fovea/parallel/config.h"
#include "fovea/parallel/interrupt.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/sockets.h"

namespace fovea::parallel {

struct DeviceBackend;
// A group of some ranks, rising.
using GroupFactory =
    std::function<std::shared_ptr<Communicator>(const std::vector<int64_t>& ranks)>;

// What a World is of where the members of a run change while its processes live: each plan of who
// takes part is a generation of them. A process leaves the World of one, and joins that of the
// next.
struct Generation {
  int64_t number = 0;  // in the names of all keys
  // Seconds of silence after which a rank counts as gone; 0: as launch.timeout has it.
  double silence = 0;
  // Ends it: see World::abandon. Null: the World has one of its own. A thread that learns of a new
  // plan fires it while another one is still making the World.
  std::shared_ptr<Interrupt> interrupt = {};
  // Of the first rank: sockets that listen at the launch's address and port already, so that others
  // may come before it, and wait. A place for this generation alone: in that of an earlier one they
  // would be let in, and put out when it ends. Null: it makes them.
  const std::vector<Socket>* listeners = nullptr;
};

class World {
 public:
  // One process by itself.
  World();
  // Stands for one rank of a run whose others are not there: groups of several ranks are what
  // `groups` makes of them.
  World(const Launch& launch, GroupFactory groups);
  // Joins the others, or is one process where the launch says so. Of several ranks each takes its
  // share of the machine's cores for the CPU kernels. Throws RankError: a rank is
  // missing when launch.timeout is over (named), two processes say they are the same rank, the port
  // is in use. From then on the process ignores SIGPIPE, as a write to a rank that has gone is an
  // error of the write, also where it is Gloo's; a handler of the program's own stays.
  // device_backend: what tensors on a GPU travel with (nccl.h); null: host memory and Gloo.
  World(const Launch& launch, const LaunchConfig& config,
        std::shared_ptr<const DeviceBackend> device_backend = nullptr,
        const Generation& generation = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A shared world of one, for code that was given none.
  static World& single();

  const Launch& launch() const { return launch_; }
  int64_t rank() const { return launch_.rank; }
  int64_t size() const { return launch_.world_size; }
  // Writes files and talks to the user.
  bool is_first() const { return launch_.rank == 0; }

  Communicator& all() { return *all_; }
  // A group of some ranks, rising, this one among them: the world's own where these are all.
  // Collective over the group.
  std::shared_ptr<Communicator> make_group(const std::vector<int64_t>& ranks);

  // From now on the ranks of each group compare every collective before it starts, so that one
  // that differs is an error that names it, not a hang or wrong numbers: for debugging, for it
  // takes time and lets nothing overlap. To be called by all ranks, before the first collective.
  void check_collectives();

  // Where this rank stands; others see it in messages.
  void at_step(int64_t step);
  // What it does besides collectives, such as "writing the report".
  void at_operation(const std::string& operation);

  // After numbers came from a device: throws RankError where they are void, as a collective that it
  // had still to do after its wait has failed. The next collective throws the same.
  void check() const;

  // Whether a thread of this process waits for the others at the moment. From any thread.
  bool is_waiting() const;
  // Seconds that this rank stood in collectives, of all groups, since the last call: for the
  // exchange itself, and for ranks that came later. 0 for one process, and for what a device waits
  // for by itself.
  double take_wait_seconds();

  // `end` is called, from another thread, some seconds after this rank has lost the place where the
  // ranks meet, should it still run then: in a long step, say. Nobody else could end it.
  void on_alone(std::function<void(const std::string& why)> end);

  // Leaves the others where they stand: everything of this World that waits for them, in whichever
  // thread, ends with a RankError, at once, also beside a rank that is stopped or cut off, and so
  // does all that is started later. On the other ranks what waits for this one ends likewise. What
  // is left is to destroy what stands on the World, and it, which waits for nobody then. From any
  // thread.
  void abandon(const std::string& why);
  bool is_abandoned() const;

  // Waits for something beside collectives, until `is_over` says so; it gets the longest time that
  // it may wait by itself. Throws RankError as a collective does.
  void wait_until(const std::string& operation,
                  const std::function<bool(std::chrono::milliseconds)>& is_over);
  // Of this machine, as the other ranks reach it; empty: there are none.
  std::string address() const;

  // Tells the others why this rank stops. -> true where no other rank's failure came first.
  bool fail(const std::string& message, ExitCode code);
  // At the good end: returns once every rank is here, so that none takes the meeting place away.
  void leave();

 private:
  struct Links;

  void check(const std::vector<int64_t>& ranks, Communicator& group);

  Launch launch_;
  std::unique_ptr<Links> links_;  // null: no other process
  GroupFactory group_factory_;    // empty: groups are those of processes
  std::map<std::vector<int64_t>, std::shared_ptr<Communicator>> made_groups_;  // by the factory
  std::shared_ptr<Communicator> all_;
};

}  // namespace fovea::parallel
