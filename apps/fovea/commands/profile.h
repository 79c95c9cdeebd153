// What the commands of `fovea profile` share.
#pragma once

#include <nlohmann/json.hpp>

#include "apps/fovea/command_line.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::app {

void add_profile_show(Command group);
void add_profile_sync(Command group);

// As --json and as tables for people have them.
nlohmann::ordered_json profiles_json(const elastic::ProfileSet& profiles);
void print_profiles(const elastic::ProfileSet& profiles);

}  // namespace fovea::app
