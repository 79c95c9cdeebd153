// Architectures of AMD's GPUs as numbers.
#pragma once

#include <charconv>
#include <string_view>

namespace fovea::kernels {

// 0x90a for "gfx90a" and for "gfx90a:sramecc+:xnack-"; 0 where it is no such name.
inline int amd_architecture(std::string_view name) {
  constexpr std::string_view kPrefix = "gfx";
  if (!name.starts_with(kPrefix)) return 0;
  name = name.substr(kPrefix.size(), name.find(':') - kPrefix.size());
  int number = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), number, /*base=*/16);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

}  // namespace fovea::kernels
