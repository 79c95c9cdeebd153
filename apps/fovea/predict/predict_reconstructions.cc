// Reconstructions of a masked autoencoder: what it saw of each input and what it made of it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::app {
namespace {

void report_reconstruction(const std::string& input, const inference::Reconstruction& one,
                           const std::vector<std::string>& files, bool json) {
  if (json) {
    say_as_is("{}\n", json_text(nlohmann::json{{"input", input},
                                               {"loss", one.loss},
                                               {"num_masked", one.num_masked},
                                               {"num_patches", one.num_patches},
                                               {"files", files}}));
    return;
  }
  say("{}\n  loss {:.4f}, {} of {} patches masked; {}\n", input, one.loss, one.num_masked,
      one.num_patches, fmt::join(files, ", "));
}

}  // namespace

void predict_reconstructions(const PredictArguments& arguments,
                             const inference::Predictor& predictor) {
  if (!arguments.intermediates.empty()) {
    fail<ConfigError>("--intermediates needs its images as a tensor file (.npy or .safetensors)");
  }
  const std::filesystem::path folder = arguments.out.empty() ? "reconstructions" : arguments.out;
  std::set<std::string> taken;
  int64_t number =
      0;  // over all inputs: what the mask of one that is no volume of tiles follows from
  const auto all = open_predict_inputs(arguments.inputs, predictor.loaded());
  for_each_input(all, arguments.json, [&](const PredictInputs& inputs, int64_t i) {
    const auto one = predictor.reconstructions(inputs.given(i), number++).front().get();
    const auto files =
        write_pictures(folder, free_name(inputs.at(i).stem, taken),
                       {one.input, one.seen, one.image}, inputs.file(i), predictor.loaded());
    report_reconstruction(inputs.at(i).path, one, files, arguments.json);
  });
}

}  // namespace fovea::app
