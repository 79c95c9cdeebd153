#include "apps/fovea/command.h"

namespace fovea::app {

void add_commands(Command app) {
  add_train(app);
  add_eval(app);
  add_predict(app);
  add_explain(app);
  add_serve(app);
  add_calibrate(app);
  add_convert(app);
  add_export(app);
  add_summary(app);
  add_config(app);
  add_list(app);
  add_bench(app);
  add_plan(app);
  add_elastic(app);
  add_profile(app);
  add_report(app);
  add_track(app);
  add_doctor(app);
  add_data(app);
  add_completion(app);
  add_man(app);
}

}  // namespace fovea::app
