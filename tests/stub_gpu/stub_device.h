// What libtorch asks a device for besides operators.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <string>

namespace fovea::stub_gpu {

// Of this thread.
c10::DeviceIndex current_device();

class DeviceScope {
 public:
  explicit DeviceScope(c10::Device device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  c10::DeviceIndex before_;
};

// For take_operators().
void note_operator(const std::string& name);

// Gives memory of the current device, whatever the tensor says.
c10::Allocator* device_allocator();

}  // namespace fovea::stub_gpu
