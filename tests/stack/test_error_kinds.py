"""What error messages mean, vendor by vendor."""

from __future__ import annotations

import pytest

from pytest_accel.stack.registry import platform
from pytest_accel.stack.types import ErrorKind

DSA = (
    "\nCUDA kernel errors might be asynchronously reported at some other API call."
    "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)

EVERYWHERE = [
    ('RuntimeError: "addmm_impl_cpu_" not implemented for \'Half\'', ErrorKind.DTYPE_UNSUPPORTED),
    ("RuntimeError: \"lu_cpu\" not implemented for 'BFloat16'", ErrorKind.DTYPE_UNSUPPORTED),
    ("NotImplementedError: \"x\" not implemented for 'Float8_e4m3fn'", ErrorKind.DTYPE_UNSUPPORTED),
    ("RuntimeError: Unsupported dtype Half", ErrorKind.DTYPE_UNSUPPORTED),
    ("RuntimeError: linalg.svd: Low precision dtypes not supported. Got Half", ErrorKind.DTYPE_UNSUPPORTED),
    ("mean(): Input dtype must be either a floating point or complex dtype. Got: Long", ErrorKind.DTYPE_UNSUPPORTED),
    ("NotImplementedError: Could not run 'aten::foo' with arguments from the 'CUDA' backend.", ErrorKind.UNSUPPORTED),
    ("NotImplementedError: The operator 'aten::foo' is not currently implemented for the X device.", ErrorKind.UNSUPPORTED),
    (
        "UserWarning: CAUTION: The operator 'aten::isin' is not currently supported on the NPU backend and will fall back to "
        "run on the CPU. This may have performance implications.",
        ErrorKind.FALLBACK,
    ),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", ErrorKind.OUT_OF_MEMORY),
    ("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.", ErrorKind.OUT_OF_MEMORY),
    ("RuntimeError: The size of tensor a (3) must match the size of tensor b (4)", ErrorKind.OTHER),
    ("AssertionError: Tensor-likes are not close!", ErrorKind.OTHER),
    ("", ErrorKind.OTHER),
]  # fmt: skip


@pytest.mark.parametrize("name", ["cpu", "cuda", "rocm", "ascend"])
@pytest.mark.parametrize(("text", "kind"), EVERYWHERE)
def test_torchs_own_texts_mean_the_same_on_every_platform(name, text, kind):
    assert platform(name).classify(text) == kind


@pytest.mark.parametrize(
    "words",
    [
        "device-side assert triggered",
        "an illegal memory access was encountered",
        "unspecified launch failure",
        "misaligned address",
        "an illegal instruction was encountered",
        "the launch timed out and was terminated",
        "uncorrectable ECC error encountered",
    ],
)
def test_sticky_errors_leave_the_context_dead(words):
    assert platform("cuda").classify(f"RuntimeError: CUDA error: {words}{DSA}") == ErrorKind.POISONED
    assert platform("rocm").classify(f"RuntimeError: HIP error: {words}") == ErrorKind.POISONED


@pytest.mark.parametrize("words", ["invalid configuration argument", "invalid argument"])
def test_the_advice_that_ends_every_device_error_poisons_nothing(words):
    assert platform("cuda").classify(f"torch.AcceleratorError: CUDA error: {words}{DSA}") == ErrorKind.OTHER


def test_a_wheel_without_the_chips_code_is_unsupported():
    text = f"RuntimeError: CUDA error: no kernel image is available for execution on the device{DSA}"
    assert platform("cuda").classify(text) == ErrorKind.UNSUPPORTED
    assert platform("rocm").classify("HIP error: invalid device function") == ErrorKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("EZ1001: tensor 0 not implemented for DT_UINT64, should be in dtype support list [D]", ErrorKind.DTYPE_UNSUPPORTED),
        ("EZ9999: Inner Error! Cannot find bin of op Range, integral key 0/1/|int64", ErrorKind.UNSUPPORTED),
        ("[ERROR] 2026-01-01-00:00:00 (PID:1, Device:0, RankID:-1) ERR01007 OPS feature not supported", ErrorKind.UNSUPPORTED),
        ("NPU out of memory. Tried to allocate 674.00 MiB (NPU 0; 61.27 GiB total capacity)", ErrorKind.OUT_OF_MEMORY),
        ("NPU function error: aclrtSynchronizeStream, error code is 507015", ErrorKind.POISONED),
        ("RuntimeError: Tensors must be contiguous\n[ERROR] (PID:1) ERR02002 DIST invalid type", ErrorKind.OTHER),
    ],
)  # fmt: skip
def test_ascends_texts(text, kind):
    assert platform("ascend").classify(text) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hipErrorNoBinaryForGpu: Unable to find code object for all current devices!", ErrorKind.UNSUPPORTED),
        ("HIP error: invalid device function", ErrorKind.UNSUPPORTED),
        ("rocBLAS error: Cannot read /opt/rocm/lib/TensileLibrary.dat: Illegal seek for GPU", ErrorKind.UNSUPPORTED),
        ("CUDA error: HIPBLAS_STATUS_NOT_SUPPORTED when calling `hipblasLtMatmul`", ErrorKind.UNSUPPORTED),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.", ErrorKind.OUT_OF_MEMORY),
        ("hipErrorOutOfMemory", ErrorKind.OUT_OF_MEMORY),
        ("Memory access fault by GPU node-2 (Agent handle: 0x55) on address 0x7f. Reason: Unknown.", ErrorKind.POISONED),
        ("HW Exception by GPU node-1 (Agent handle: 0x55) reason :GPU Hang", ErrorKind.POISONED),
        ("RuntimeError: No HIP GPUs are available", ErrorKind.OTHER),
        ("HIP_VISIBLE_DEVICES contains more devices than ROCR_VISIBLE_DEVICES", ErrorKind.OTHER),
    ],
)  # fmt: skip
def test_amds_texts(text, kind):
    assert platform("rocm").classify(text) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("AclNN_Parameter_Error(EZ1001): tensor 0 not implemented for DT_COMPLEX64", ErrorKind.DTYPE_UNSUPPORTED),
        ("EZ9999: Inner Error! the input x does not support DT_DOUBLE", ErrorKind.DTYPE_UNSUPPORTED),
        ("NPU function error: aclrtMalloc, error code is 207001", ErrorKind.OUT_OF_MEMORY),
        ("The execution of the internal task times out. error code is 507048[Error]:", ErrorKind.POISONED),
        ("NPU function error: aclrtGetDeviceCount(&device_count), error code is 207004", ErrorKind.OTHER),
        ("NPU function error: c10_npu::SetDevice(device_id_), error code is 107001", ErrorKind.OTHER),
        ("Expected all tensors to be on the same device. ERR01002 OPS invalid type", ErrorKind.OTHER),
    ],
)  # fmt: skip
def test_canns_codes(text, kind):
    assert platform("ascend").classify(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "[W] Warning: kernel [gcd.out] is not supported by NPU currently.Now this kernel is running on CPU.",
        "CPU fallback is allowed because TORCH_NPU_FALLBACK_CPU_DISABLE=0. Since the NPU interface does not support operator "
        "'aten::_sparse_csr_sum.dim_dtype', the operator will fall back to CPU.",
        "The operator 'aten::fmax.out' would execute its main computation on CPU through dispatcher backend fallback, but CPU "
        "fallback is disabled by TORCH_NPU_FALLBACK_CPU_DISABLE=1.\n[ERROR] 2026-01-01 (PID:1, Device:0, RankID:-1) ERR01007",
    ],
)
def test_ascends_other_words_for_work_on_the_host_are_known(text):
    assert platform("ascend").classify(text) == ErrorKind.FALLBACK


def test_a_processor_of_the_device_is_not_the_host():
    text = (
        "Warning: kernel [ArgSort] can not support dtype int32 or int64 on AiCore, Now this kernel is running on AiCpu."
    )
    assert platform("ascend").classify(text) != ErrorKind.FALLBACK
