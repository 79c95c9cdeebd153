// A sequence of a device's operations that is noted once and then run as a whole.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace fovea::kernels {

// Operations read and write the memory that they were noted with, and numbers that the host gave
// them stay as they were: what changes from one replay to the next is in memory. No virtual
// function is defined here, so that a back end that is loaded at run time needs no symbol of ours.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;

  // Runs work that record() will be given once before that, for what is made on first use.
  virtual void rehearse(const std::function<void()>& work) = 0;

  // Notes what `work` has the device do, and keeps its tensors' memory; nothing of it is done.
  // Throws what `work` throws, and where it waits for the device or does something else that cannot
  // be noted; then there is nothing to replay. Once.
  virtual void record(const std::function<void()>& work) = 0;

  // Within record(): work of the host, which is not to be noted and makes what operators read. It
  // is left out where they do not run while they are noted.
  virtual void aside(const std::function<void()>& work) = 0;

  // Within record(): work that makes tensors which the host writes before each replay. Their memory
  // is no recorded operation's: what a replay has not yet come to is overwritten by what it does
  // before, where both have the same memory one after the other.
  virtual void apart(const std::function<void()>& work) = 0;

  // Has the device do it all, behind what it was given before.
  virtual void replay() = 0;
};

using MakeDeviceGraph = std::function<std::unique_ptr<DeviceGraph>(c10::Device)>;

// Of the back end of the device; null where it has none.
std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device);

}  // namespace fovea::kernels
