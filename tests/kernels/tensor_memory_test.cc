#include "fovea/kernels/tensor_memory.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <vector>

namespace fovea::kernels {
namespace {

constexpr auto kStub = c10::DeviceType::PrivateUse1;

// Devices without memory: only which one is the current one.
struct StubDevices final : public c10::impl::DeviceGuardImplInterface {
  static inline thread_local c10::DeviceIndex current = 0;

  c10::DeviceType type() const override { return kStub; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kStub, std::exchange(current, device.index())};
  }
  c10::Device getDevice() const override { return {kStub, current}; }
  void setDevice(c10::Device device) const override { current = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, StubDevices);

// As those of GPUs: memory comes from the current device, whatever the tensor says.
struct StubAllocator final : public c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    asked.push_back(StubDevices::current);
    sizes.push_back(bytes);
    return c10::DataPtr(nullptr, c10::Device(kStub, StubDevices::current));
  }
  void copy_data(void* /*to*/, const void* /*from*/, size_t /*bytes*/) const override {}

  std::vector<c10::DeviceIndex> asked;
  std::vector<size_t> sizes;
};

at::Tensor stub_tensor(StubAllocator& allocator, c10::DeviceIndex device, int64_t count) {
  auto storage = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(kStub, device)),
      &allocator, /*resizable=*/true));
  auto x = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      caffe2::TypeMeta::Make<float>());
  x.unsafeGetTensorImpl()->set_sizes_contiguous({count});
  return x;
}

TEST(TensorMemoryTest, IsTakenOnTheTensorsOwnDevice) {
  StubAllocator allocator;
  const auto x = stub_tensor(allocator, 1, 6);
  ASSERT_EQ(StubDevices::current, 0);
  take_memory(x);
  EXPECT_EQ(allocator.asked, std::vector<c10::DeviceIndex>{1});
  EXPECT_EQ(allocator.sizes, std::vector<size_t>{24});
  EXPECT_EQ(StubDevices::current, 0);
  EXPECT_EQ(x.storage().data_ptr().device().index(), 1);
}

TEST(TensorMemoryTest, GivenBackTheTensorHasNone) {
  StubAllocator allocator;
  const auto x = stub_tensor(allocator, 1, 6);
  take_memory(x);
  give_memory_back(x);
  EXPECT_EQ(x.storage().nbytes(), 0U);
  EXPECT_EQ(x.device(), c10::Device(kStub, 1));
}

}  // namespace
}  // namespace fovea::kernels
