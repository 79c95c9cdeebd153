// Small texts by name that all ranks see: what they meet and tell each other of faults through. A
// thin layer over c10d's stores.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "fovea/parallel/store_client.h"
#include "fovea/parallel/store_server.h"

namespace fovea::parallel {

struct KeyStoreOptions {
  StorePlace place;
  bool is_server = false;                // the store is in this process
  bool is_for_others = false;            // of a server: other machines are to reach it
  std::chrono::milliseconds timeout{0};  // longest wait for the store, at the start and later on
  std::shared_ptr<const Interrupt> interrupt = {};  // ends such waits; may be null
  // Of a server: sockets that listen at its place already, and go on when it has ended; null: it
  // makes its own.
  const std::vector<Socket>* listeners = nullptr;
};

// All but clone and under throw RankError where the store is gone or does not answer in time.
class KeyStore {
 public:
  // Throws RankError: nothing, or something else, answers at the address; the port is in use.
  explicit KeyStore(const KeyStoreOptions& options);

  // With a connection of its own: one connection serves one caller at a time, and makes the others
  // wait. The server stays with the first one. timeout: of the clone.
  std::unique_ptr<KeyStore> clone(std::chrono::milliseconds timeout) const;
  // The same connection, with `prefix` before every name.
  KeyStore under(const std::string& prefix) const;

  void set(const std::string& key, const std::string& value);
  // Sets a key that has no value yet. -> whether it had none.
  bool set_first(const std::string& key, const std::string& value);
  // Nothing where the key has no value. Of a longer value the first max_bytes.
  std::optional<std::string> find(const std::string& key, size_t max_bytes = 64 << 10) const;
  // Adds to a number that starts at 0. -> the sum.
  int64_t add(const std::string& key, int64_t amount);
  // Waits until all keys have values. -> those that have none when the time is up.
  std::vector<std::string> wait_for(const std::vector<std::string>& keys,
                                    std::chrono::milliseconds timeout) const;

  // For process groups.
  const c10::intrusive_ptr<c10d::Store>& handle() const { return store_; }

 private:
  KeyStore(c10::intrusive_ptr<StoreClient> connection, std::string prefix);

  std::shared_ptr<StoreServer> server_;  // null: in another process
  c10::intrusive_ptr<StoreClient> connection_;
  std::string prefix_;
  c10::intrusive_ptr<c10d::Store> store_;  // the connection, under the prefix
};

}  // namespace fovea::parallel
