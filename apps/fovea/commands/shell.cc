// fovea completion bash|zsh|fish, fovea man [COMMAND...] [--out DIR]: what shells and `man` show.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/completion.h"
#include "apps/fovea/man_page.h"
#include "apps/fovea/output.h"
#include "fovea/core/error.h"
#include "fovea/core/nearest.h"
#include "fovea/files/atomic_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct ManArguments {
  std::vector<std::string> command;
  std::string out;
};

void print_page(const std::vector<ManPage>& pages, const std::vector<std::string>& command) {
  const auto wanted = command.empty() ? "fovea" : fmt::format("fovea-{}", fmt::join(command, "-"));
  std::vector<std::string> names;
  for (const auto& page : pages) {
    if (page.name == wanted) return say_as_is("{}", page.text);
    names.push_back(page.name);
  }
  fail<Error>("no page {}{}", wanted, or_did_you_mean(wanted, names));
}

void write_pages(const std::vector<ManPage>& pages, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail<Error>("--out {}: the folder cannot be made: {}", folder, error.message());
  for (const auto& page : pages) {
    write_file_atomic((fs::path(folder) / (page.name + ".1")).string(), page.text);
  }
  say("{}: {} pages\n", folder, pages.size());
}

}  // namespace

void add_completion(Command app) {
  auto group = app.add_command("completion", "Completion of command lines, for a shell to read");
  group.require_command();
  group.examples({"fovea completion bash > ~/.local/share/bash-completion/completions/fovea",
                  "fovea completion zsh > ~/.zsh/completions/_fovea",
                  "fovea completion fish > ~/.config/fish/completions/fovea.fish"});
  const struct {
    const char* shell;
    std::string (*make)(Command);
    const char* example;
  } shells[] = {{"bash", bash_completion, "fovea completion bash > fovea.bash"},
                {"zsh", zsh_completion, "fovea completion zsh > _fovea"},
                {"fish", fish_completion, "fovea completion fish > fovea.fish"}};
  for (const auto& shell : shells) {
    group.add_command(shell.shell, fmt::format("Print the script for {}", shell.shell))
        .examples({shell.example})
        .callback([app, make = shell.make] { say_as_is("{}", make(app)); });
  }
}

void add_man(Command app) {
  auto command = app.add_command("man", "Manual pages: print one, or write all of them");
  auto arguments = std::make_shared<ManArguments>();
  command.add_option("command", arguments->command, "whose page to print: data pack")
      .type_name("COMMAND...");
  command.add_option("--out", arguments->out, "folder to write all pages to").type_name("DIR");
  command.examples({"fovea man data pack | man -l -", "fovea man --out man1"});
  command.callback([app, arguments] {
    const auto pages = man_pages(app.parser());
    if (arguments->out.empty()) {
      print_page(pages, arguments->command);
    } else {
      write_pages(pages, arguments->out);
    }
  });
}

}  // namespace fovea::app
