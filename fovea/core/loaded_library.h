// Shared libraries that are loaded when they are first needed, not with the program.
#pragma once

#include <string>

namespace fovea {

// What the names mean that a library and those it stands on have in common with the program and its
// libraries. kOwn: their own come first. Under a sanitizer, which cannot bear that, it is kShared.
enum class LibraryNames { kShared, kOwn };

// One that stays loaded for good.
class LoadedLibrary {
 public:
  // Of a library that is not there `why_not` says so.
  explicit LoadedLibrary(const std::string& name, LibraryNames names = LibraryNames::kShared);

  const std::string& name() const { return name_; }
  // Empty: it is there.
  const std::string& why_not() const { return why_not_; }

  // Throws ConfigError "USE with NAME, which cannot be loaded (WHY NOT); ADVICE" where it is not
  // there.
  void check_there(const char* use, const char* advice) const;

  // Null: there is no library, or it has no function of the name.
  template <class Function>
  Function find(const char* function) const {
    return reinterpret_cast<Function>(address_of(function));
  }
  // All of several: nothing stays null. expected: what has them, for messages. Throws ConfigError.
  template <class Function>
  void require(const char* name, const char* expected, Function& function) const {
    function = find<Function>(name);
    if (function == nullptr) fail_without(name, expected);
  }

 private:
  void* address_of(const char* function) const;
  [[noreturn]] void fail_without(const char* function, const char* expected) const;

  std::string name_, why_not_;
  void* library_;
};

}  // namespace fovea
