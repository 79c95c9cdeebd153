#include "fovea/train/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include "fovea/core/error.h"
#include "tests/support/html_checker.h"
#include "tests/support/temp_dir.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

class ReportTest : public ::testing::Test {
 protected:
  fs::path make_run(const std::string& name) const {
    fs::create_directories(root_ / name);
    return root_ / name;
  }
  static void put(const fs::path& path, const std::string& content) {
    std::ofstream(path) << content;
  }
  static std::string get(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path complete_run(const std::string& name, double lr) const {
    const auto folder = make_run(name);
    put(folder / "config.yaml", "optim: {name: adamw, lr: " + std::to_string(lr) +
                                    "}\nrun:\n  note: '<script>x</script>'\n");
    std::ofstream metrics(folder / "metrics.jsonl");
    for (int step = 1; step <= 50; ++step) {
      metrics << R"({"step": )" << step << R"(, "epoch": )" << step / 10.0
              << R"(, "split": "train", "loss": )" << 1.0 / step << R"(, "lr": )" << lr
              << R"(, "images_per_second": 100, "data_wait": 0.02, "dice": 0.5})"
              << "\n";
    }
    metrics << R"({"step": 50, "epoch": 5, "split": "val", "loss": 0.25, "top1": 81.25})"
            << "\n";
    EvaluationFile evaluation;
    evaluation.metrics = {{"loss", 0.25}, {"top1", 81.25}, {"dice", 0.625}};
    evaluation.pictures = {{.title = "A <mask>", .caption = "over its image", .image_png = kPng}};
    evaluation.num_samples = 16;
    evaluation.num_classes = 2;
    evaluation.class_names = {"cat", "<img src=x onerror=y>"};
    evaluation.confusion = {{0, 0, 8}, {1, 0, 3}, {1, 1, 5}};
    evaluation.samples = {{.index = 1,
                           .description = "a'b.png",
                           .label = 1,
                           .predicted = 1,
                           .loss = 0.1,
                           .scores = {{1, 0.9}, {0, 0.1}},
                           .image_png = ""}};
    evaluation.mistakes = {{.index = 2,
                            .description = "</li>",
                            .label = 1,
                            .predicted = 0,
                            .loss = 3.0,
                            .scores = {{0, 0.95}, {1, 0.05}},
                            .image_png = kPng}};
    write_evaluation_file(folder / "evaluation.json", evaluation);
    write_machine_file(folder / "machine.json", {.machine = this_machine(),
                                                 .version = "1",
                                                 .torch_version = "2",
                                                 .command = "fovea train \"a b\"",
                                                 .device = "cpu",
                                                 .dtype = "float32",
                                                 .threads = 1,
                                                 .started = "2026-01-01T00:00:00Z",
                                                 .ended = "2026-01-01T00:01:00Z"});
    return folder;
  }

  // The first bytes of a PNG of 2 x 2 pixels: as far as the report looks into it.
  inline static const std::string kPng =
      std::string("\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\x02\0\0\0\x02", 24);
  support::TempDir temp_;
  fs::path root_ = temp_.path();
};

TEST_F(ReportTest, ShowsEverythingOfACompleteRun) {
  const auto folder = complete_run("one", 0.001);
  EXPECT_EQ(write_report({folder}), folder / "report.html");
  const auto html = get(folder / "report.html");
  const auto summary = support::check_html(html);
  EXPECT_EQ(summary.fault, "");
  for (const char* shown :
       {"81.25 %", "Learning", "Speed", "Classes", "Confusions", "Sample predictions",
        "Worst mistakes", "Machine", "The resolved config", "1m00s", "Dice", "lr: 0.001", "0.625",
        "A <mask>", "over its image", "<script>x</script>", "<img src=x onerror=y>",
        "fovea train \"a b\""}) {
    EXPECT_NE(summary.text.find(shown), std::string::npos) << shown;
  }
  EXPECT_EQ(summary.tags.at("script"), 1);
  EXPECT_EQ(summary.tags.at("img"), 2);
  EXPECT_NE(html.find("src=\"data:image/png;base64,iVBORw0KGgo"), std::string::npos);
  EXPECT_EQ(html.find("://"), std::string::npos);
}

TEST_F(ReportTest, DrawsTheWorkersOfAnElasticRun) {
  const auto folder = complete_run("elastic", 0.001);
  const auto change = [](int generation, const std::string& reason, const std::string& workers,
                         int step, int lost) {
    return R"({"generation": )" + std::to_string(generation) + R"(, "reason": ")" + reason +
           R"(", "workers": [)" + workers + R"(], "step": )" + std::to_string(step) +
           R"(, "pause_s": 1.25, "steps_lost": )" + std::to_string(lost) + "}\n";
  };
  put(folder / "events.jsonl", change(1, "start", R"("a")", 0, 0) +
                                   change(2, "join", R"("a", "<b>")", 20, 0) +
                                   change(4, "death", R"("<b>")", 40, 3) + R"({"generation": 5)");
  const auto run = read_run(folder);
  ASSERT_EQ(run.member_changes.size(), 3u);
  EXPECT_EQ(run.member_changes[2].generation, 4);
  const auto html = render_report(run);
  const auto summary = support::check_html(html);
  EXPECT_EQ(summary.fault, "");
  for (const char* shown :
       {"2 workers, 3 generations", "+ <b>", "\xE2\x88\x92 a", "a: generation 1, steps 0 to 20",
        "<b>: generation 4, steps 40 to 50", "death", "1.25"}) {
    EXPECT_NE(summary.text.find(shown), std::string::npos) << shown;
  }
  // A bar for each stay: a in two generations, b in two.
  size_t bars = 0;
  for (size_t at = html.find("<rect class=\"f"); at != std::string::npos;
       at = html.find("<rect class=\"f", at + 1)) {
    ++bars;
  }
  EXPECT_EQ(bars, 4u);
  put(folder / "events.jsonl", "{\"generation\": \"x\"}\n");
  const auto damaged = support::check_html(render_report(read_run(folder)));
  EXPECT_EQ(damaged.fault, "");
  EXPECT_NE(damaged.text.find("events.jsonl cannot be read"), std::string::npos);
}

TEST_F(ReportTest, GivesPrecisionRecallAndF1) {
  const auto folder = complete_run("one", 0.001);
  const auto text = support::check_html(render_report(read_run(folder))).text;
  // cat: 8 of the 11 taken for one, all 8 found; F1 = 16 / 19.
  EXPECT_NE(text.find("cat72.7100.084.28"), std::string::npos);
  EXPECT_NE(text.find("100.062.576.98"), std::string::npos);
}

TEST_F(ReportTest, SaysWhatIsMissing) {
  const auto folder = make_run("young");
  put(folder / "metrics.jsonl", "");
  const auto text = support::check_html(get(write_report({folder}))).text;
  for (const char* file : {"config.yaml", "metrics.jsonl", "evaluation.json", "machine.json"}) {
    EXPECT_NE(text.find(file), std::string::npos) << file;
  }
}

TEST_F(ReportTest, SurvivesDamagedFiles) {
  const auto folder = make_run("damaged");
  put(folder / "config.yaml", "a: [1, 2");
  put(folder / "metrics.jsonl", "no json\n{\"step\": 1, \"split\": \"train\", \"loss\": 2}\n[1]\n");
  put(folder / "evaluation.json", "{\"num_classes\": ");
  put(folder / "machine.json", "[]");
  const auto summary = support::check_html(get(write_report({folder})));
  EXPECT_EQ(summary.fault, "");
  for (const char* shown : {"config.yaml cannot be read", "2 of 3 lines of metrics.jsonl",
                            "evaluation.json cannot be read", "machine.json cannot be read"}) {
    EXPECT_NE(summary.text.find(shown), std::string::npos) << shown;
  }
}

TEST_F(ReportTest, RefusesAFolderThatHoldsNoRun) {
  EXPECT_THROW(write_report({make_run("empty")}), DataError);
  EXPECT_THROW(write_report({root_ / "nowhere"}), DataError);
  EXPECT_THROW(write_report({}), Error);
}

TEST_F(ReportTest, ComparesRuns) {
  const auto out = root_ / "both.html";
  EXPECT_EQ(write_report({complete_run("a", 0.001), complete_run("b", 0.002)}, out), out);
  const auto summary = support::check_html(get(out));
  EXPECT_EQ(summary.fault, "");
  EXPECT_NE(summary.text.find("2 runs compared"), std::string::npos);
  EXPECT_NE(summary.text.find("optim.lr0.0010000.002000"), std::string::npos);
  EXPECT_EQ(summary.text.find("optim.name"), std::string::npos);
}

TEST(ReadMetricsTest, ReplacesWhatAResumedRunRepeats) {
  const support::TempDir folder;
  const auto path = folder.write("metrics.jsonl",
                                 R"({"step": 10, "split": "train", "loss": 3}
{"step": 20, "split": "train", "loss": 2}
{"step": 30, "split": "train", "loss": 1.5}
{"step": 20, "split": "train", "loss": 2.5}
{"step": 30, "epoch": 1.5, "split": "train", "loss": 1}
{"step": 40, "split": "train", "lo)");
  const auto metrics = read_metrics(path);
  const auto* loss = metrics.find("train", "loss");
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->x, (std::vector<double>{10, 20, 30}));
  EXPECT_EQ(loss->y, (std::vector<double>{3, 2.5, 1}));
  EXPECT_EQ(metrics.num_lines, 5);
  EXPECT_EQ(metrics.num_damaged, 0);
  EXPECT_EQ(metrics.last_step, 30);
  EXPECT_EQ(metrics.last_epoch, 1.5);
  EXPECT_EQ(metrics.find("val", "loss"), nullptr);
}

// Sparse, of a terabyte: what cannot be a line ends the reading.
TEST(ReadMetricsTest, StopsAtWhatIsNoLine) {
  const support::TempDir folder;
  const auto path = folder.write("metrics.jsonl", R"({"step": 10, "split": "train", "loss": 3})"
                                                  "\n");
  fs::resize_file(path, uint64_t{1} << 40);
  const auto metrics = read_metrics(path);
  EXPECT_EQ(metrics.num_lines, 1);
  EXPECT_NE(metrics.fault.find("line 2 has more than"), std::string::npos) << metrics.fault;
}

TEST(ReadMetricsTest, TakesNanInEveryForm) {
  const support::TempDir folder;
  const auto path = folder.write("metrics.jsonl",
                                 R"({"step": 1, "split": "train", "loss": NaN}
{"step": 2, "split": "train", "loss": null}
{"step": 3, "split": "train", "loss": -inf}
{"step": 4, "split": "train", "loss": 1, "note": "NaN"}
)");
  const auto metrics = read_metrics(path);
  const auto* loss = metrics.find("train", "loss");
  ASSERT_NE(loss, nullptr);
  ASSERT_EQ(loss->size(), 4u);
  EXPECT_EQ(metrics.num_damaged, 0);
  EXPECT_TRUE(std::isnan(loss->y[0]) && std::isnan(loss->y[1]) && std::isnan(loss->y[2]));
  EXPECT_EQ(loss->y[3], 1);
}

}  // namespace
}  // namespace fovea::train
