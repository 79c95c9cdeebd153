// What a trained model sees in image files: predict RUN_DIR|WEIGHTS FILE...
#include <fmt/format.h>

#include "fovea/fovea.h"

using namespace fovea;

int main(int argc, char** argv) try {
  if (argc < 3) fail<ConfigError>("expected files: predict RUN_DIR FILE...");
  const inference::Predictor predictor(argv[1]);
  const std::vector<std::string> files(argv + 2, argv + argc);
  auto answers = predictor.classes(inference::file_inputs(files));
  for (size_t i = 0; i < files.size(); ++i) {
    if (answers[i].error) {
      fmt::print(stderr, "{}\n", answers[i].error->what());
      continue;
    }
    const auto [label, score] = inference::best(answers[i].value->scores, 1).at(0);
    fmt::print("{}\t{}\t{}\n", files[i], predictor.loaded().class_name(label), score);
  }
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
