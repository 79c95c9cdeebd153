// Slices of tensors out of the memory of another process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fovea/checkpoint/slice_source.h"
#include "fovea/checkpoint/state.h"
#include "fovea/elastic/held_slices.h"
#include "fovea/parallel/interrupt.h"
#include "fovea/parallel/sockets.h"

namespace fovea::elastic {

// Note [Slices from peers]
// Who wants slices connects, greets (Note [The store]) and sends the list of them; the other side
// sends their bytes in that order, and nothing between them, as both know the sizes. So many small
// ones cost no more than a large one. What is asked for and is not there ends the connection.

// Gives slices of what this process holds to whoever has the secret, until it is destroyed.
class SliceServer {
 public:
  // held: all tensors on the CPU; outlives this. address: of this machine, as others reach it.
  // Throws SocketError.
  SliceServer(const checkpoint::State& held, const std::string& address, bool is_for_others,
              std::string secret);
  ~SliceServer();
  SliceServer(const SliceServer&) = delete;
  SliceServer& operator=(const SliceServer&) = delete;

  int64_t port() const { return listeners_.front().port(); }

 private:
  void run(const parallel::Socket& listener);
  void serve(const parallel::Socket& socket) const;

  HeldSlices held_;
  std::string secret_;
  std::shared_ptr<parallel::Interrupt> end_;
  std::vector<parallel::Socket> listeners_;
  std::vector<std::thread> threads_;  // by listener
};

// Where a SliceServer is.
struct PeerPlace {
  std::string worker;  // for messages
  std::string address;
  int64_t port = 0;
  std::string secret{};
};

class PeerSlices final : public checkpoint::SliceSource {
 public:
  // wanted: all that will be read, in the order in which it will; dtypes: of the same. interrupt:
  // ends what waits for the peer. Throws Error that names the worker.
  struct Wanted {
    SliceName slice;
    at::ScalarType dtype;
  };
  PeerSlices(const PeerPlace& place, std::vector<Wanted> wanted, parallel::Deadline deadline,
             std::shared_ptr<const parallel::Interrupt> interrupt);

  at::Tensor read(const std::string& key) override;
  uint64_t bytes_read() const override { return bytes_read_; }

 private:
  PeerPlace place_;
  std::vector<Wanted> wanted_;
  size_t next_ = 0;
  uint64_t bytes_read_ = 0;
  parallel::Deadline deadline_;
  parallel::Socket socket_;
};

}  // namespace fovea::elastic
