// What runs while somebody listens.
#pragma once

#include <ATen/record_function.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace fovea::support {

// How often each operation of libtorch, or work of ours, runs, in all threads.
class Operations {
 public:
  Operations() {
    counts().clear();
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& call) {
                                      const std::lock_guard lock(mutex());
                                      ++counts()[call.name()];
                                      return std::unique_ptr<at::ObserverContext>();
                                    }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Operations() { at::removeCallback(handle_); }
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  int of(const std::string& name) const {
    const std::lock_guard lock(mutex());
    const auto found = counts().find(name);
    return found == counts().end() ? 0 : found->second;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::map<std::string, int>& counts() {
    static std::map<std::string, int> counts;
    return counts;
  }
  at::CallbackHandle handle_ = 0;
};

}  // namespace fovea::support
