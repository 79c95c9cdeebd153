#include "fovea/core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "fovea/core/error.h"

namespace fovea {
namespace {

std::shared_ptr<spdlog::sinks::sink> terminal() {
  static const auto sink = [] {
    auto made = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    made->set_pattern("%^%l%$: %v");
    return made;
  }();
  return sink;
}

std::shared_ptr<spdlog::logger>& logger() {
  static auto current = [] {
    auto made = std::make_shared<spdlog::logger>("fovea", terminal());
    made->flush_on(spdlog::level::info);
    spdlog::set_default_logger(made);
    return made;
  }();
  return current;
}

}  // namespace

void log_info(const std::string& message) { logger()->info(message); }

void log_warning(const std::string& message) { logger()->warn(message); }

void set_log_file(const std::string& path) {
  logger()->sinks() = {terminal()};
  if (path.empty()) return;
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    file->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
    logger()->sinks().push_back(std::move(file));
  } catch (const spdlog::spdlog_ex& error) {
    fail<Error>("{}: the log cannot be written: {}", path, error.what());
  }
}

void set_log_verbose(bool is_verbose) {
  terminal()->set_level(is_verbose ? spdlog::level::info : spdlog::level::warn);
}

}  // namespace fovea
