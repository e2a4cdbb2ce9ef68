"""What the error messages of torch and of the vendors mean. The texts are matched, since their types are not telling."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_accel.stack.types import ErrorKind

Rules = Sequence[tuple[str, "re.Pattern[str]"]]

_SCALAR_TYPES = (
    r"(?:Half|BFloat16|Float|Double|Char|Byte|Short|Int|Long|Bool|ComplexHalf|ComplexFloat|ComplexDouble|"
    r"Float8_\w+|Float4_\w+|UInt\d+|Int\d|QInt8|QUInt8|QInt32|Bits\w+|BComplex32)"
)


def rules(*pairs: tuple[str, str]) -> Rules:
    """Compile pairs of kind and pattern; the first that is found in a text decides."""
    return tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in pairs)


#: Forms that torch uses on every device.
TORCH = rules(
    (ErrorKind.FALLBACK, r"not currently supported on the \S+ backend and will fall back to run on the CPU"),
    (
        ErrorKind.OUT_OF_MEMORY,
        r"out of memory|OutOfMemoryError|\bMemoryError\b|can't allocate memory: you tried to allocate|"
        r"not enough memory: you tried to allocate|STATUS_ALLOC_FAILED|OUT_OF_MEMORY",
    ),
    (
        ErrorKind.DTYPE_UNSUPPORTED,
        rf"not (?:currently )?implemented for '{_SCALAR_TYPES}'|unsupported (?:dtype|data ?type|scalar ?type)|"
        r"(?:dtype|data ?type|scalar ?type)s?\b[^.\n]{0,60}\b(?:is|are)? ?(?:not|un)[ -]?supported|"
        rf"(?:does not|doesn't|not) (?:currently )?support(?:ed)?(?: for)?[^.\n]{{0,40}}(?:dtype|\b{_SCALAR_TYPES}\b|"
        r"bfloat16|float16|float8\w*|complex(?:32|64|128))|Promotion for Float8 Types is not supported|"
        r"only (?:supports?|supported for) [^.\n]{0,60}(?:dtype|floating|floating[- ]point|complex|float32|double)|"
        r"dtype must be (?:either )?(?:a |an )?(?:floating|complex|integral|boolean)|"
        r"expected [^.\n]{0,40}floating[- ]point [^.\n]{0,20}(?:dtype|type|tensor)",
    ),
    (
        ErrorKind.UNSUPPORTED,
        r"Could not run '\w+::|NotImplementedError|not (?:currently |yet )?(?:implemented|supported) (?:for|on) (?:the )?"
        r"(?:'?\w+'? )?(?:backend|device|CUDA|ROCm|HIP|NPU|CPU)|is not (?:currently )?implemented for|"
        r"(?:built|compiled) without|not compiled with|requires (?:building|compiling) (?:PyTorch )?with|"
        r"no kernel image is available|invalid device function|No available kernel|feature not supported",
    ),
)

# "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions." ends *every* device error of torch's: only the
# assertion that was triggered means anything.
_STICKY = (
    r"device-side assert(?!ions)|illegal memory access|unspecified launch failure|misaligned address|illegal instruction|"
    r"illegal address|invalid program counter|hardware stack error|operation not supported on global/shared address space|"
    r"launch timed out|uncorrectable (?:NVLink |ECC )|GPU is lost|fallen off the bus|"
    r"invalid access of peer GPU memory|context is destroyed|operation failed due to a previous error"
)

#: What CUDA and ROCm share: HIP translates CUDA's errors word for word.
CUDA_LIKE = rules((ErrorKind.POISONED, _STICKY))

ROCM = rules(
    (
        ErrorKind.POISONED,
        r"Memory access fault by GPU|HSA_STATUS_ERROR_(?:MEMORY_(?:FAULT|APERTURE_VIOLATION)|EXCEPTION|ILLEGAL_INSTRUCTION)|"
        r"HW Exception by GPU|GPU Hang|hipError(?:IllegalAddress|LaunchFailure|LaunchTimeOut|ECCNotCorrectable|Assert)\b",
    ),
    (ErrorKind.OUT_OF_MEMORY, r"hipError(?:OutOfMemory|MemoryAllocation)\b|rocblas_status_memory_error"),
    (
        ErrorKind.UNSUPPORTED,
        r"hipErrorNoBinaryForGpu|Unable to find code object for all current devices|hipErrorInvalidDeviceFunction|"
        r"Cannot read \S*TensileLibrary|(?:HIPBLAS|HIPSPARSE|ROCBLAS)_STATUS_NOT_SUPPORTED|rocblas_status_not_implemented|"
        r"miopenStatus(?:UnsupportedOp|NotImplemented)",
    ),
)

#: Codes of CANN: EZ1001 parameter, EZ9999 inner error; acl: 207001 memory, 5070xx and 507048 exceptions that end the context.
#: Work on the host: the dispatcher's warning has torch's own form; operators with a host kernel of their own, and the error under
#: TORCH_NPU_FALLBACK_CPU_DISABLE, have others (sources of Ascend/pytorch, op-plugin). "AiCpu" is a processor of the device.
ASCEND = rules(
    (
        ErrorKind.FALLBACK,
        r"Now this kernel is running on CPU\b|would execute its main computation on CPU|"
        r"the operator will fall ?back to (?:run on the )?CPU\b",
    ),
    (ErrorKind.OUT_OF_MEMORY, r"NPU out of memory|error code is 207001\b"),
    (
        ErrorKind.POISONED,
        r"error code is 5070(?:11|14|15|18|48)\b|ai ?core exception|aicpu exception|suspect remote error",
    ),
    (
        ErrorKind.DTYPE_UNSUPPORTED,
        r"not implemented for DT_|should be in dtype support list|not support\w*[^.\n]{0,40}\bDT_\w+|"
        r"\bDT_\w+[^.\n]{0,40}not support",
    ),
    (ErrorKind.UNSUPPORTED, r"\bERR\d\d007\b|Cannot find bin(?:ary)? (?:of|for) op"),
)


def classify(text: str, *sets: Rules) -> str:
    """The ``ErrorKind`` of the first rule that matches ``text``, the vendor's ``sets`` before torch's own; else OTHER."""
    for found in (*sets, TORCH):
        for kind, pattern in found:
            if pattern.search(text):
                return kind
    return ErrorKind.OTHER
