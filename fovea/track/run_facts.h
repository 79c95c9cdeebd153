// What is known of a run besides its metrics, for whoever looks at it in a tracker.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace fovea::track {

using Facts = std::map<std::string, std::string>;

// The keys of config.yaml with their values, flat: "optim.lr": "0.001",
// "data.train.transforms.0.p": "flip". Lists of plain values are one. Throws ConfigError where it
// cannot be read as YAML, DataError where it cannot be read at all.
Facts recipe_facts(const std::filesystem::path& run_dir);
// Of machine.json: version, device ...; of a file that is not there, or damaged, nothing.
Facts machine_facts(const std::filesystem::path& run_dir);
// Of who runs this process, in which folder: user, and the commit of the folder's repository.
Facts process_facts(const std::filesystem::path& folder);

// The commit that is checked out in the repository around a folder; empty: there is none.
std::string git_commit(const std::filesystem::path& folder);

}  // namespace fovea::track
