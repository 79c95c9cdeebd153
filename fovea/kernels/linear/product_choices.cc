#include "fovea/kernels/linear/product_choices.h"

#include <string_view>

#include "fovea/kernels/cuda/module.h"

namespace fovea::kernels {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_algorithm(const std::string& text) {
  return text.size() == 2 * cuda::kAlgorithmBytes &&
         text.find_first_not_of(kHexDigits) == std::string::npos;
}

}  // namespace

ChoiceTable& product_choices() {
  static ChoiceTable table{"products on the GPU", is_algorithm,
                           "an algorithm of cuBLASLt, 128 hexadecimal digits"};
  return table;
}

}  // namespace fovea::kernels
