#include "apps/fovea/spin_limit.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <string_view>
#include <vector>

#include "fovea/parallel/launcher_variables.h"

namespace fovea::app {
namespace {

// "NAME=value" with a value.
bool is_set(const std::vector<const char*>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [name](std::string_view entry) {
    return entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

bool is_rank(const std::vector<const char*>& environment) {
  return parallel::launchers_there([&](const char* name) { return is_set(environment, name); })
      .any();
}

}  // namespace

void limit_spinning(int, char** argv, char** environment) {
  std::vector<const char*> entries;
  for (char** entry = environment; *entry != nullptr; ++entry) entries.push_back(*entry);
  const size_t num_given = entries.size();
  if (!is_set(entries, "GOMP_SPINCOUNT") && !is_set(entries, "OMP_WAIT_POLICY")) {
    entries.push_back("GOMP_SPINCOUNT=1000");
  }
  if (is_rank(entries) && !is_set(entries, "TORCH_CPP_LOG_LEVEL"))
    entries.push_back("TORCH_CPP_LOG_LEVEL=ERROR");
  if (entries.size() == num_given) return;
  entries.push_back(nullptr);
  char program[PATH_MAX];  // by its own name, which ps and pkill then show
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length] = '\0';
  // Returns only where it fails; all works as before.
  execve(program, argv, const_cast<char**>(entries.data()));
}

}  // namespace fovea::app
