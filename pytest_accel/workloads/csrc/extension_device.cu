// The device's half: sums of blocks by shuffles within a warp (a wavefront of 32 or 64 lanes: warpSize says) and shared memory
// between warps. torch's build turns this file into HIP where torch is built for it, so it keeps to what both have.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

namespace {

constexpr int kThreads = 256;
constexpr int kMostWarps = kThreads / 32;  // 32 is the narrowest warp there is; wider ones use fewer places

__device__ float shuffle_down(float value, int offset) {
#if defined(USE_ROCM) || defined(__HIP_PLATFORM_AMD__)
  return __shfl_down(value, offset);
#else
  return __shfl_down_sync(0xffffffffu, value, offset);
#endif
}

__global__ void block_sum_kernel(const float* in, float* out, int64_t count, int64_t block) {
  __shared__ float partial[kMostWarps];
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * block;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < block && begin + i < count; i += blockDim.x) sum += in[begin + i];
  for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += shuffle_down(sum, offset);
  const int lane = threadIdx.x % warpSize;
  const int warp = threadIdx.x / warpSize;
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int w = 0; w < static_cast<int>(blockDim.x) / warpSize; ++w) total += partial[w];
    out[blockIdx.x] = total;
  }
}

at::Tensor block_sum_device(const at::Tensor& x, int64_t block) {
  TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::kFloat, "block_sum: a contiguous float32 tensor is wanted");
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t blocks = (x.numel() + block - 1) / block;
  at::Tensor out = at::empty({blocks}, x.options());
  if (blocks > 0) {
    block_sum_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), x.numel(), block);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(ACCEL_EXTENSION, CUDA, m) { m.impl("block_sum", TORCH_FN(block_sum_device)); }
