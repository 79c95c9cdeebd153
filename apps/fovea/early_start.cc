#include "apps/fovea/early_start.h"

#include <sys/stat.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "fovea/core/early_memory.h"
#include "fovea/core/free_memory.h"

namespace fovea::app {
namespace {

constexpr size_t kOperators = size_t{56} << 20;  // what libtorch 2.11 registers
constexpr size_t kMostWeights = size_t{1} << 30;

// Whether a command takes passes with the weights that it is given.
bool takes_passes(std::string_view command) {
  return command == "predict" || command == "explain" || command == "eval" || command == "serve";
}

size_t file_size(const char* path) {
  struct stat status;
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return static_cast<size_t>(status.st_size);
}

// Bytes of the weights that a word of the command line names: FILE.safetensors, a run's folder, or
// NAME=either; 0: it names none.
size_t weights_named(const char* word) {
  if (const char* equals = std::strrchr(word, '=')) word = equals + 1;
  if (std::string_view(word).ends_with(".safetensors")) return file_size(word);
  char path[PATH_MAX];
  const int length = std::snprintf(path, sizeof path, "%s/weights.safetensors", word);
  return length < PATH_MAX ? file_size(path) : 0;
}

// Whether the user tells malloc when to grow and what to map, who then has the choice.
bool is_malloc_told(char* const* environment) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const bool is_tunable =
        entry.starts_with("GLIBC_TUNABLES=") && entry.find("glibc.malloc.") != entry.npos;
    if (is_tunable || entry.starts_with("MALLOC_")) return true;
  }
  return false;
}

// Twice the weights: as they are, and as products take them. Of the memory that nobody has and
// that this process may have, a quarter at most.
size_t region_for(size_t weights) {
  struct sysinfo info;
  if (weights == 0 || sysinfo(&info) != 0) return 0;
  const auto free =
      std::min(size_t{info.freeram} * info.mem_unit, static_cast<size_t>(free_memory_bytes()));
  return 2 * std::min({weights, kMostWeights, free / 8});
}

}  // namespace

void start_early(int argc, char** argv, char** environment) {
  size_t weights = 0;
  const bool has_passes = argc > 1 && takes_passes(argv[1]);
  for (int i = 2; has_passes && i < argc; ++i) weights += weights_named(argv[i]);
  fetch_early_memory(
      {.heap = is_malloc_told(environment) ? 0 : kOperators, .region = region_for(weights)});
}

}  // namespace fovea::app
