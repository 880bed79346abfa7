// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/blocker.h"

#include <atomic>
#include <utility>

#include "absl/time/clock.h"
#include "tests/gpu/deadline.h"
#include "tests/gpu/status_flow.h"

namespace firn::gpu_check {
namespace {

constexpr absl::Duration kStartsWithin = absl::Seconds(5);

void Reset(SpinControl* control) {
  control->stop = 0;
  control->started = 0;
  control->ended = 0;
}

class SpinningKernel : public Blocker {
 public:
  SpinningKernel(Kernels* kernels, StreamHandle stream, SpinControl* control)
      : Blocker(stream), kernels_(*kernels), control_(control) {}

  absl::Status Begin(DevicePtr touched, absl::Duration limit) override {
    Reset(control_);
    FIRN_TRY(kernels_.LaunchSpin(stream(), control_, touched, limit));
    const Deadline deadline(kStartsWithin);
    while (control_->started == 0) {
      if (deadline.Passed()) {
        return absl::DeadlineExceededError("a kernel did not start");
      }
      absl::SleepFor(absl::Microseconds(20));
    }
    return absl::OkStatus();
  }
  bool Running() override { return control_->ended == 0; }
  absl::Status End() override {
    control_->stop = 1;
    return kernels_.Synchronize(stream());
  }

 private:
  Kernels& kernels_;
  SpinControl* const control_;
};

// A word that a device waits for and a thread of the host writes.
class WaitedWord {
 public:
  virtual ~WaitedWord() = default;
  virtual DevicePtr address() const = 0;
  virtual absl::Status Clear() = 0;
  // From any thread. Makes it 1.
  virtual void Write() = 0;
};

class HostWord : public WaitedWord {
 public:
  HostWord(SpinControl* control, DevicePtr address)
      : control_(control), address_(address) {}

  DevicePtr address() const override { return address_; }
  absl::Status Clear() override {
    Reset(control_);
    return absl::OkStatus();
  }
  void Write() override { control_->stop = 1; }

 private:
  SpinControl* const control_;
  const DevicePtr address_;  // of its first word
};

class DeviceWord : public WaitedWord {
 public:
  DeviceWord(Driver* driver, std::unique_ptr<GranuleRow> memory,
             std::unique_ptr<OwnStream> stream)
      : driver_(*driver),
        memory_(std::move(memory)),
        stream_(std::move(stream)) {}

  DevicePtr address() const override { return memory_->base(); }
  absl::Status Clear() override {
    FIRN_TRY_CALL(
        "cuMemsetD8Async",
        driver_.MemsetD8Async(address(), 0, sizeof(uint32_t), stream_->get()));
    return stream_->Synchronize();
  }
  void Write() override {
    (void)driver_.StreamWriteValue32(stream_->get(), address(), 1,
                                     kWriteValueDefault);
  }

 private:
  Driver& driver_;
  const std::unique_ptr<GranuleRow> memory_;
  const std::unique_ptr<OwnStream> stream_;
};

absl::StatusOr<std::unique_ptr<WaitedWord>> NewWord(const Scene& scene,
                                                    Kernels* kernels) {
  FIRN_TRY_ASSIGN(SpinControl* const control, kernels->NewControl());
  const absl::StatusOr<DevicePtr> address = kernels->DeviceAddress(control);
  if (address.ok()) return std::make_unique<HostWord>(control, *address);
  if (!absl::IsUnimplemented(address.status())) return address.status();
  FIRN_TRY_ASSIGN(std::unique_ptr<GranuleRow> memory,
                  GranuleRow::Mapped(scene, 1));
  FIRN_TRY_ASSIGN(std::unique_ptr<OwnStream> stream,
                  OwnStream::Create(&scene.driver()));
  return std::make_unique<DeviceWord>(&scene.driver(), std::move(memory),
                                      std::move(stream));
}

class ValueWait : public Blocker {
 public:
  ValueWait(Driver* driver, Kernels* kernels, StreamHandle stream,
            std::unique_ptr<WaitedWord> word)
      : Blocker(stream),
        driver_(*driver),
        kernels_(*kernels),
        word_(std::move(word)) {}
  ~ValueWait() override { Write(); }

  absl::Status Begin(DevicePtr /*touched*/, absl::Duration limit) override {
    FIRN_TRY(word_->Clear());
    end_ = false;
    const DriverResult result =
        driver_.StreamWaitValue32(stream(), word_->address(), 1, kWaitValueEq);
    FIRN_TRY_CALL("cuStreamWaitValue32", result);
    writer_ = std::thread([this, limit] {
      const Deadline deadline(limit);
      while (!end_ && !deadline.Passed()) {
        absl::SleepFor(absl::Microseconds(50));
      }
      end_ = true;
      word_->Write();
    });
    // Until the device has come to the wait.
    absl::SleepFor(absl::Milliseconds(1));
    return absl::OkStatus();
  }
  bool Running() override { return !end_; }
  absl::Status End() override {
    Write();
    return kernels_.Synchronize(stream());
  }

 private:
  void Write() {
    end_ = true;
    if (writer_.joinable()) writer_.join();
  }

  Driver& driver_;
  Kernels& kernels_;
  const std::unique_ptr<WaitedWord> word_;
  std::atomic<bool> end_{false};  // the word is written, or should be
  std::thread writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Blocker>> NewSpinningKernel(Kernels* kernels) {
  FIRN_TRY_ASSIGN(const StreamHandle stream, kernels->NewStream());
  FIRN_TRY_ASSIGN(SpinControl* const control, kernels->NewControl());
  auto blocker = std::make_unique<SpinningKernel>(kernels, stream, control);
  // The first launch may load the kernel.
  FIRN_TRY(blocker->Begin(0, absl::Milliseconds(1)));
  FIRN_TRY(blocker->End());
  return blocker;
}

absl::StatusOr<std::unique_ptr<Blocker>> NewValueWait(const Scene& scene,
                                                      Kernels* kernels) {
  FIRN_TRY_ASSIGN(const StreamHandle stream, kernels->NewStream());
  FIRN_TRY_ASSIGN(std::unique_ptr<WaitedWord> word, NewWord(scene, kernels));
  auto blocker = std::make_unique<ValueWait>(&scene.driver(), kernels, stream,
                                             std::move(word));
  FIRN_TRY(blocker->Begin(0, absl::Milliseconds(1)));
  FIRN_TRY(blocker->End());
  return blocker;
}

}  // namespace firn::gpu_check
