// What was measured to be the fastest on this machine, by name of what it is for: kept from then
// on, also in a file from start to start of a run, for another choice rounds otherwise.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace fovea::kernels {

// As a back end that is loaded at run time sees them: it needs no symbol of ours.
class MeasuredChoices {
 public:
  virtual ~MeasuredChoices() = default;

  virtual std::optional<std::string> find(const std::string& name) const = 0;
  // -> what stands for the name: another thread's choice, where that was first.
  virtual std::string keep(const std::string& name, const std::string& choice) = 0;
};

// May be used from several threads.
class ChoiceTable final : public MeasuredChoices {
 public:
  // what: "kernels of attention". is_choice, expected: what a file may say, and that for a message.
  ChoiceTable(std::string what, std::function<bool(const std::string&)> is_choice,
              std::string expected)
      : what_(std::move(what)), is_choice_(std::move(is_choice)), expected_(std::move(expected)) {}

  std::optional<std::string> find(const std::string& name) const override;
  std::string keep(const std::string& name, const std::string& choice) override;

  // From now on the table is that of the file, where there is one, and what is measured is written
  // to it. A damaged file is one that is not there, and a warning says what that costs.
  void keep_in(const std::string& path);
  // The table stays, the file is left alone.
  void stop_keeping();

 private:
  std::map<std::string, std::string> read(const std::string& path) const;

  std::string what_;
  std::function<bool(const std::string&)> is_choice_;
  std::string expected_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> choices_;
  std::string path_;  // empty: none
};

// While alive a table is kept in a file.
class KeptChoices {
 public:
  KeptChoices(ChoiceTable& table, const std::string& path) : table_(table) { table.keep_in(path); }
  ~KeptChoices() { table_.stop_keeping(); }
  KeptChoices(const KeptChoices&) = delete;
  KeptChoices& operator=(const KeptChoices&) = delete;

 private:
  ChoiceTable& table_;
};

}  // namespace fovea::kernels
