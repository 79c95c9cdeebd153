// Manual pages made of the tree of commands.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace fovea::app {

struct ManPage {
  std::string name;  // "fovea-data-pack", of section 1
  std::string text;  // roff
};

// One for the program and one for each command.
std::vector<ManPage> man_pages(const CLI::App& program);

}  // namespace fovea::app
