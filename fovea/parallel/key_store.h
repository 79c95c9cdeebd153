// Small texts by name that all ranks see: what they meet and tell each other of faults through. A
// thin layer over c10d's TCPStore.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace fovea::parallel {

struct KeyStoreOptions {
  std::string address;
  int64_t port = 0;  // 0: of a server, any free one
  bool is_server = false;
  std::chrono::milliseconds timeout{0};  // longest wait for the server and for a key
};

class KeyStore {
 public:
  // Throws RankError: nothing answers at the address in time; the port is in use.
  explicit KeyStore(const KeyStoreOptions& options);

  // With a connection of its own: one connection serves one caller at a time, and makes the others
  // wait. The server stays with the first one.
  std::unique_ptr<KeyStore> clone() const;
  // The same connection, with `prefix` before every name.
  KeyStore under(const std::string& prefix) const;

  void set(const std::string& key, const std::string& value);
  // Sets a key that has no value yet. -> whether it had none.
  bool set_first(const std::string& key, const std::string& value);
  // Nothing where the key has no value.
  std::optional<std::string> find(const std::string& key) const;
  // Adds to a number that starts at 0. -> the sum.
  int64_t add(const std::string& key, int64_t amount);
  // Waits until all keys have values. -> those that have none when the time is up.
  std::vector<std::string> wait_for(const std::vector<std::string>& keys,
                                    std::chrono::milliseconds timeout) const;

  int64_t port() const { return port_; }
  // For process groups.
  const c10::intrusive_ptr<c10d::Store>& handle() const { return store_; }

 private:
  KeyStore(c10::intrusive_ptr<c10d::Store> store, int64_t port)
      : store_(std::move(store)), port_(port) {}

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t port_ = 0;
};

}  // namespace fovea::parallel
