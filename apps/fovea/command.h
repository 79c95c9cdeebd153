// A sub-command: one small file in commands/, one line in command.cc.
#pragma once

#include "apps/fovea/command_line.h"

namespace fovea::app {

// Each adds its sub-command, options and callback to `app`. A callback that ends otherwise than
// "done" throws an Error or an ExitRequest; main() turns both into the process's exit code.
void add_train(Command app);
void add_eval(Command app);
void add_predict(Command app);
void add_explain(Command app);
void add_serve(Command app);
void add_calibrate(Command app);
void add_convert(Command app);
void add_export(Command app);
void add_summary(Command app);
void add_config(Command app);
void add_list(Command app);
void add_bench(Command app);
void add_plan(Command app);
void add_elastic(Command app);
void add_profile(Command app);
void add_report(Command app);
void add_track(Command app);
void add_doctor(Command app);
void add_data(Command app);
void add_completion(Command app);
void add_man(Command app);

// All of them, in the order of the help.
void add_commands(Command app);

struct ExitRequest {
  int code;
};

}  // namespace fovea::app
