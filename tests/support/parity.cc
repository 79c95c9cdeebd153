#include "tests/support/parity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/support/tolerance.h"

namespace fovea::support {
namespace {

double largest(const at::Tensor& x) { return x.numel() ? x.abs().max().item<double>() : 0.0; }

}  // namespace

std::string ParityReport::text() const {
  auto line = fmt::format("{} tensors compared, worst {} at {:.1e} of its tolerance", num_compared,
                          worst_name, worst_error);
  for (const auto& problem : problems) line += "\n    " + problem;
  return line;
}

ParityReport compare(const NamedTensors& actual, const NamedTensors& expected,
                     at::ScalarType dtype) {
  ParityReport report;
  const auto tolerance = Tolerance::for_dtype(dtype);
  if (expected.empty()) report.problems.emplace_back("nothing to compare with");
  for (const auto& item : actual) {
    if (!expected.count(item.first)) report.problems.push_back(item.first + ": not expected");
  }
  for (const auto& [name, want] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end() || !found->second.defined()) {
      report.problems.push_back(name + ": missing");
      continue;
    }
    const auto& got = found->second;
    if (got.sizes() != want.sizes()) {
      report.problems.push_back(fmt::format("{}: shape [{}], expected [{}]", name,
                                            fmt::join(got.sizes(), ", "),
                                            fmt::join(want.sizes(), ", ")));
      continue;
    }
    const auto wide = want.detach().to(at::kDouble);
    const auto difference = largest(got.detach().to(at::kDouble) - wide);
    const auto allowed = tolerance.atol + tolerance.rtol * largest(wide);
    const auto error = difference / allowed;
    ++report.num_compared;
    if (!(error <= report.worst_error)) {
      report.worst_error = error;
      report.worst_name = name;
    }
    if (!(error <= 1.0)) {  // also for NaN
      report.problems.push_back(
          fmt::format("{}: off by {:.3e}, allowed {:.1e}", name, difference, allowed));
    }
  }
  return report;
}

}  // namespace fovea::support
