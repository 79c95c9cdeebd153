// Recipes: any bytes are read or refused with a ConfigError, and what is read survives a round
// trip. The input up to the first NUL is the recipe, what follows an override each.
#include <cstdlib>
#include <string>

#include "fovea/config/config.h"
#include "fovea/config/node.h"
#include "fovea/core/error.h"

namespace fovea {
namespace {

struct FlipConfig {
  static constexpr std::string_view kName = "flip";
  double p = 0.5;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
  }
};

struct ResizeConfig {
  static constexpr std::string_view kName = "resize";
  std::optional<int64_t> size;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("size", self.size, "side", {.min = 1, .null_word = "auto"});
  }
};

struct RecipeConfig {
  std::string preset;
  std::string dir = "runs";
  bool shuffle = true;
  int64_t seed = 42;
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  std::map<std::string, std::vector<std::string>> names;
  std::vector<OneOf<FlipConfig, ResizeConfig>> transforms = {{FlipConfig{}}};
  OneOf<ResizeConfig, FlipConfig> last;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("preset", self.preset, "sizes");
    v.field("dir", self.dir, "folder");
    v.field("shuffle", self.shuffle, "order");
    v.field("seed", self.seed, "seed");
    v.field("lr", self.lr, "rate", {.min = 0});
    v.field("betas", self.betas, "decay");
    v.field("names", self.names, "lists by name");
    v.field("transforms", self.transforms, "in order");
    v.field("last", self.last, "the last one");
  }
  void validate(ConfigIssues& issues) const {
    if (seed == 7) issues.add("seed", "seed=7 with lr=... is refused");
  }
  bool apply_preset(const std::string& name) {
    seed = 1;
    return name == "tiny";
  }
  static std::vector<std::string> preset_names() { return {"tiny"}; }
};

}  // namespace
}  // namespace fovea

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string text(reinterpret_cast<const char*>(bytes), size);
  std::vector<std::string> overrides;
  while (true) {
    const size_t end = text.rfind('\0');
    if (end == std::string::npos || overrides.size() == 8) break;
    overrides.push_back(text.substr(end + 1));
    text.resize(end);
  }
  try {
    const auto config = fovea::parse_config<fovea::RecipeConfig>(text, "fuzz", overrides);
    const std::string yaml = fovea::dump_config(config);
    if (yaml.size() > fovea::kMaxConfigBytes) return 0;
    const auto again = fovea::parse_config<fovea::RecipeConfig>(yaml, "dump");
    if (fovea::dump_config(again) != yaml || !fovea::config_diff(config, again).empty()) abort();
  } catch (const fovea::ConfigError& error) {
    if (std::string_view(error.what()).starts_with("dump")) abort();  // our own text was refused
  }
  return 0;
}
