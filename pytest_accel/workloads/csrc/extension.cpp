// The host's half of the test extension: two operators through torch's dispatcher. axpy uses torch's own operators and so runs on
// every device; block_sum is a loop for host tensors, and extension_device.cu adds the device's kernel where there is a compiler.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace {

at::Tensor axpy(const at::Tensor& x, const at::Tensor& y, double a) { return at::add(y, x, a); }

at::Tensor block_sum_host(const at::Tensor& x, int64_t block) {
  TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::kFloat, "block_sum: a contiguous float32 tensor is wanted");
  const int64_t blocks = (x.numel() + block - 1) / block;
  at::Tensor out = at::empty({blocks}, x.options());
  const float* in = x.const_data_ptr<float>();
  float* sums = out.mutable_data_ptr<float>();
  for (int64_t b = 0; b < blocks; ++b) {
    double sum = 0.0;
    for (int64_t i = b * block; i < x.numel() && i < (b + 1) * block; ++i) sum += in[i];
    sums[b] = static_cast<float>(sum);
  }
  return out;
}

}  // namespace

TORCH_LIBRARY(ACCEL_EXTENSION, m) {
  m.def("axpy(Tensor x, Tensor y, float a) -> Tensor");
  m.def("block_sum(Tensor x, int block) -> Tensor");
  m.impl("axpy", c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(axpy));
}

TORCH_LIBRARY_IMPL(ACCEL_EXTENSION, CPU, m) { m.impl("block_sum", TORCH_FN(block_sum_host)); }
