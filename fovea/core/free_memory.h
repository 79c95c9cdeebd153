// What memory there is at the moment for this process to take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace fovea {

// Bytes that this process can still take without the system having to end one: of the machine's
// memory what is free or can be freed, within the limits of its cgroups and of its own address
// space (ulimit -v). Can be asked before main.
int64_t free_memory_bytes();

namespace detail {
// Of one cgroup's folder, either version: what is left below its limit, files that can be dropped
// counted as free. Nothing: it has no limit.
std::optional<int64_t> free_of_cgroup(const std::filesystem::path& folder);
// The number behind `key` in a file of lines "key number"; nothing where there is none.
std::optional<int64_t> number_behind(const std::filesystem::path& path, const std::string& key);
}  // namespace detail

// From now on the address space of this process may grow by so many bytes, so that an allocation
// beyond fails in place of being granted.
void limit_growth(int64_t bytes);

}  // namespace fovea
