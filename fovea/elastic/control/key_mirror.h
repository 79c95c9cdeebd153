// What stands under some keys of etcd, kept up to date by a thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fovea/elastic/control/etcd_client.h"

namespace fovea::elastic {

// Reads the keys, then watches them from that revision on. Every `silence` at the latest it reads
// them anew, through etcd's quorum: a watch at a member of etcd that is cut off from the others, or
// that stands still, is silent. So it is while etcd is away, when the last state stands; and where
// etcd has compacted what the watch was to go on from. Both are said in the log, once.
class KeyMirror {
 public:
  struct State {
    int64_t number = 0;    // grows with each change; 0: nothing was read yet
    int64_t revision = 0;  // of etcd
    std::map<std::string, KeyValue> values{};
  };

  // What stands there now. Throws EtcdError.
  static State read(EtcdClient& client, const KeyRange& range);

  // Has read the keys once, or throws EtcdError.
  KeyMirror(const EtcdClient& client, KeyRange range,
            std::chrono::milliseconds silence = std::chrono::seconds(5));
  ~KeyMirror();
  KeyMirror(const KeyMirror&) = delete;
  KeyMirror& operator=(const KeyMirror&) = delete;

  State state() const;
  // Waits for a state of a larger number. False: there was none in time.
  bool wait(int64_t after, std::chrono::milliseconds timeout) const;
  // Since etcd has answered last.
  std::chrono::milliseconds silent_for() const;
  // Why etcd does not answer at the moment; empty: it does.
  std::string fault() const;

 private:
  void run();
  void read_anew();
  void watch();
  void apply(const WatchReply& reply);
  void note_answer();
  void note_fault(const std::string& fault);
  void pause() const;

  std::unique_ptr<EtcdClient> client_;
  KeyRange range_;
  std::chrono::milliseconds silence_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  State state_;
  std::chrono::steady_clock::time_point heard_;
  std::string fault_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace fovea::elastic
