// What is wrong with the values of a config, each fault with the keys that it
// is about.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Keys are relative to the config that reports.
struct ConfigIssue {
  std::string key;      // where the fault is reported: "num_heads"
  std::string message;  // found, expected, what to do
  // The other keys whose values the check compares. Where one of all these keys
  // could not be read, nothing is known across them, and the issue is left out.
  std::vector<std::string> beside = {};
};

// What `validate` of a config reports.
class ConfigIssues {
 public:
  // A value that is wrong by itself.
  void add(std::string_view key, std::string message);
  // Values that do not go together: that of `key`, with those of `beside`.
  void add(std::string_view key, std::initializer_list<std::string_view> beside,
           std::string message);
  // Those of the config that stands under the key `section`. beside: keys of
  // this config whose values they compare with, too.
  void join(std::string_view section, const ConfigIssues& from,
            std::initializer_list<std::string_view> beside = {});

  const std::vector<ConfigIssue>& all() const { return issues_; }

 private:
  std::vector<ConfigIssue> issues_;
};

}  // namespace fovea
