// Images and volumes that a diffusion run takes noise away from.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "apps/fovea/output.h"
#include "apps/fovea/predict/inputs.h"
#include "apps/fovea/predict/output_files.h"
#include "apps/fovea/predict/predict.h"
#include "fovea/core/json.h"

namespace fovea::app {
void predict_denoised(const PredictArguments& arguments, const inference::Predictor& predictor) {
  const auto options = sample_options(arguments.samples, predictor.loaded());
  const std::filesystem::path folder = arguments.out.empty() ? "denoised" : arguments.out;
  std::set<std::string> taken;
  const auto all = open_predict_inputs(arguments.inputs, predictor.loaded());
  for_each_input(all, arguments.json, [&](const PredictInputs& inputs, int64_t i) {
    const auto& input = inputs.at(i).path;
    const auto one = predictor.denoised(inputs.given(i), options).front().get();
    const auto files =
        write_pictures(folder, free_name(inputs.at(i).stem, taken),
                       {one.input, one.noisy, one.image}, inputs.file(i), predictor.loaded());
    if (arguments.json) {
      say_as_is("{}\n", json_text(nlohmann::json{{"input", input},
                                                 {"timestep", one.timestep},
                                                 {"mean_square_error", one.mean_square_error},
                                                 {"files", files}}));
      return;
    }
    say("{}\n  noise of time step {} added and taken away; mean square error {:.4f}; {}\n", input,
        one.timestep, one.mean_square_error, fmt::join(files, ", "));
  });
}

}  // namespace fovea::app
