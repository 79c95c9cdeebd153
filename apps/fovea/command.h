// A sub-command: one small file in commands/, one line in main.cc.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace fovea::app {

// Each adds its sub-command, options and callback to `app`. A callback that ends otherwise than
// "done" throws an Error or an ExitRequest; main() turns both into the process's exit code.
void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_predict(CLI::App& app);
void add_explain(CLI::App& app);
void add_convert(CLI::App& app);
void add_export(CLI::App& app);
void add_summary(CLI::App& app);
void add_config(CLI::App& app);
void add_list(CLI::App& app);
void add_bench(CLI::App& app);
void add_plan(CLI::App& app);
void add_report(CLI::App& app);
void add_doctor(CLI::App& app);
void add_data(CLI::App& app);

// A new sub-command of `group`. Not CLI11's own add_subcommand: in every file that calls it that
// compiles the whole parser anew.
CLI::App* add_command(CLI::App& group, std::string name, std::string help);

struct ExitRequest {
  int code;
};

}  // namespace fovea::app
