#include "fovea/weights/t5x_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/weights/t5x_folder.h"

namespace fovea::weights {
namespace {

constexpr std::string_view kStates = "state/param_states/";
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kSlots = {
    {{"mu", "exp_avg"},
     {"nu", "exp_avg_sq"},
     {"trace", "momentum_buffer"},
     // Of t5x's own Adafactor, and factored second moments: slots of no optimizer here.
     {"m", "exp_inf"},
     {"v", "square_avg"},
     {"v_row", "exp_avg_sq_row"},
     {"v_col", "exp_avg_sq_col"}}};

// What stands there as "state/param_states/1/0/mu/head/kernel" belongs to the state
// "state/param_states/1/0". t5x's own optimizers keep a map for each parameter instead:
// "state/param_states/head/kernel/m". Empty: no moment.
std::string torch_name(const std::string& name) {
  if (!name.starts_with(kStates)) return "";
  size_t start = kStates.size();
  for (size_t end = 0; end != std::string::npos && start < name.size(); start = end + 1) {
    end = name.find('/', start);
    const auto part = std::string_view(name).substr(start, end - start);
    const auto* slot = std::find_if(kSlots.begin(), kSlots.end(),
                                    [&](const auto& item) { return item.first == part; });
    if (slot == kSlots.end()) continue;
    const auto before = name.substr(0, start - 1);
    if (end != std::string::npos)
      return fmt::format("{}.state.{}.{}", before, name.substr(end + 1), slot->second);
    return fmt::format("state/param_states.state.{}.{}",
                       before.substr(std::min(before.size(), kStates.size())), slot->second);
  }
  return "";
}

class T5xSource : public OptimizerSource {
 public:
  explicit T5xSource(const std::string& path) : folder_(path) {
    for (const auto& array : folder_.arrays()) {
      auto name = torch_name(array.name);
      if (name.empty()) continue;
      tensors_.push_back(std::move(name));
      arrays_.push_back(&array);
    }
  }

  at::Tensor read(size_t i) override { return folder_.read(*arrays_.at(i)); }
  std::vector<std::string> places_of_groups() const override { return {}; }
  std::optional<double> step(const std::string& place, const std::string& /*key*/) const override {
    const auto count = number_of(place + "/count");
    return count ? count : top_number("step");
  }
  std::optional<double> top_number(const std::string& key) const override {
    return number_of("state/" + key);
  }

 private:
  // Settings are in the program alone.
  void add_groups(const std::string& /*place*/, GroupsBuilder& /*groups*/) const override {}

  std::optional<double> number_of(const std::string& name) const {
    const auto* array = folder_.find(name);
    const auto value = array == nullptr ? at::Tensor() : folder_.read(*array);
    if (!value.defined() || value.numel() != 1) return {};
    return value.to(at::kDouble).item<double>();
  }

  T5xFolder folder_;
  std::vector<const T5xArray*> arrays_;
};

}  // namespace

std::unique_ptr<OptimizerSource> open_t5x_source(const std::string& path) {
  return std::make_unique<T5xSource>(path);
}

}  // namespace fovea::weights
