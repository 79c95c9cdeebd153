#include "apps/fovea/spin_limit.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "fovea/parallel/launcher_variables.h"

namespace fovea::app {
namespace {

// "NAME=value" with a value.
bool is_set(std::span<char* const> environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [name](std::string_view entry) {
    return entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

bool is_rank(std::span<char* const> environment) {
  return parallel::launchers_there([&](const char* name) { return is_set(environment, name); })
      .any();
}

// What is added, in order, then nulls.
using Additions = std::array<const char*, 2>;

Additions additions_to(std::span<char* const> environment) {
  Additions added{};
  size_t count = 0;
  if (!is_set(environment, "GOMP_SPINCOUNT") && !is_set(environment, "OMP_WAIT_POLICY")) {
    added[count++] = "GOMP_SPINCOUNT=1000";
  }
  if (is_rank(environment) && !is_set(environment, "TORCH_CPP_LOG_LEVEL")) {
    added[count++] = "TORCH_CPP_LOG_LEVEL=ERROR";
  }
  return added;
}

bool may_lend_its_place(std::string_view entry) {
  constexpr std::array<std::string_view, 11> kNames = {
      "_=",    "PWD=",  "OLDPWD=",   "SHLVL=",     "LOGNAME=",      "USER=",
      "MAIL=", "TERM=", "HOSTNAME=", "LS_COLORS=", "INVOCATION_ID="};
  return std::any_of(kNames.begin(), kNames.end(),
                     [entry](std::string_view name) { return entry.starts_with(name); });
}

std::array<char*, std::tuple_size_v<Additions>> lenders{};

// False, and nothing is done, where there are too few that lend their places.
bool put_in_place(std::span<char*> environment, const Additions& added) {
  std::array<char**, lenders.size()> places{};
  auto place = environment.begin();
  for (size_t i = 0; i < added.size() && added[i]; ++i) {
    place = std::find_if(place, environment.end(), may_lend_its_place);
    if (place == environment.end()) return false;
    places[i] = &*place++;
  }
  for (size_t i = 0; i < added.size() && added[i]; ++i) {
    lenders[i] = *places[i];
    *places[i] = const_cast<char*>(added[i]);
  }
  return true;
}

// Returns only where it fails; all works as before.
void start_anew(char** argv, std::span<char* const> environment, const Additions& added) {
  std::vector<char*> entries(environment.begin(), environment.end());
  for (const char* entry : added) entries.push_back(const_cast<char*>(entry));
  entries.push_back(nullptr);
  char program[PATH_MAX];  // by its own name, which ps and pkill then show
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length] = '\0';
  execve(program, argv, entries.data());
}

}  // namespace

void limit_spinning(int, char** argv, char** environment) {
  size_t count = 0;
  while (environment[count] != nullptr) ++count;
  const std::span entries(environment, count);
  const auto added = additions_to(entries);
  if (!put_in_place(entries, added)) start_anew(argv, entries, added);
}

void restore_environment() {
  for (char*& entry : lenders) {
    if (entry != nullptr) putenv(entry);
    entry = nullptr;
  }
}

}  // namespace fovea::app
