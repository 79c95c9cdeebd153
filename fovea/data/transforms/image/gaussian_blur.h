// The transform gaussian_blur.
#pragma once

#include <fmt/format.h>

#include "fovea/data/transforms/image/blur.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct GaussianBlurConfig {
  static constexpr std::string_view kName = "gaussian_blur";
  static constexpr std::string_view kOfVolumes = "rand_gaussian_smooth";
  double p = 0.5;
  std::vector<double> sigma = {0.1, 2.0};
  std::string method = "torchvision";
  int64_t kernel_size = 23;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("sigma", self.sigma, "standard deviation: one number, or least and largest",
            {.unit = "pixels", .one_is_list = true});
    v.field("method", self.method, "torchvision: a kernel; pillow: box filters",
            {.choices = {"torchvision", "pillow"}});
    v.field("kernel_size", self.kernel_size, "side of torchvision's kernel, odd",
            {.min = 1, .max = 1001, .unit = "pixels"});
  }
  void validate(ConfigIssues& issues) const {
    check_interval("sigma", sigma.size() == 1 ? std::vector<double>{sigma[0], sigma[0]} : sigma,
                   issues);
    if (kernel_size % 2 == 0) {
      issues.add("kernel_size", fmt::format("{}; expected an odd number", kernel_size));
    }
  }
  bool draws() const { return p > 0; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    if (!random.bernoulli(p)) return in;
    const double drawn = random.uniform(sigma.front(), sigma.back());
    Image& out = scratch.next_image();
    if (method == "pillow") {
      gaussian_blur_pillow(in, drawn, out, scratch.augment.blur);
    } else {
      gaussian_blur_kernel(in, kernel_size, drawn, out, scratch.augment.blur);
    }
    return ImageView(out);
  }
};

}  // namespace fovea::data
