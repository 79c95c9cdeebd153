// The faults of one reading of a config: all of them, each at the place that it
// was written at.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/issues.h"
#include "fovea/config/node.h"

namespace fovea::detail {

// Keys are full: "model.encoder.num_heads".
class ConfigFaults {
 public:
  explicit ConfigFaults(std::string source);

  const std::string& source() const { return *source_.source; }
  void set_origin(const std::string& key, const ConfigOrigin& origin) { origins_[key] = origin; }
  // Where the key was written; where it was not, the section around it.
  ConfigOrigin origin_of(const std::string& key) const;
  bool is_of_file(const ConfigOrigin& origin) const;

  void add(const ConfigOrigin& origin, const std::string& key, const std::string& message);
  // The value of this key is not what was meant, for it could not be read.
  void mark_unread(const std::string& key) { unread_.insert(key); }
  // What `validate` of the section at `key` reports, but for issues of values
  // that were not read.
  void add_issues(const std::string& key, const ConfigIssues& issues);

  size_t count() const { return count_; }
  // No further one is named, they are counted alone.
  bool is_full() const;
  void count_unnamed() { ++count_; }
  // Throws ConfigError if there is any: those of the file by line, then those
  // of the command line.
  void throw_all();

 private:
  struct Fault {
    ConfigOrigin origin;
    std::string text;  // the whole line of the message
  };

  ConfigOrigin source_;
  std::map<std::string, ConfigOrigin> origins_;
  std::vector<Fault> faults_;
  std::set<std::string> unread_;
  size_t count_ = 0;
};

}  // namespace fovea::detail
