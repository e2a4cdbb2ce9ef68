"""A simulated torch_npu: importing it gives torch a device ``npu`` whose work the CPU does.

It is found as the real one is: a distribution ``torch-npu`` with an entry point in ``torch.backends``, which ``import torch``
loads. What it can do wrong is switched on by environment variables: see ``switches``.
"""

from __future__ import annotations

import sys

import simulated_host  # noqa: F401 - telemetry asks the simulated machine too
import torch

from torch_npu import autocast, host_side, module, switches, tensor

_CANN = "9.1.0"
if switches.BROKEN:
    raise OSError("libhccl.so: cannot open shared object file: No such file or directory")


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self):
        return torch._C._autograd.DeviceType.PrivateUse1


def _register() -> None:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    sys.modules["torch.npu"] = module.npu
    _setup_privateuseone_for_python_backend("npu", backend_module=module.npu, device_guard=_Guard())
    # ``parameter.data = other`` would lose the tensor that a simulated one holds: conversions make new parameters.
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch.version.cann = _CANN
    tensor.register()
    autocast.register()
    host_side.register()


if not hasattr(torch, "npu"):
    _register()

npu = module.npu


def _autoload() -> None:
    """The entry point of ``torch.backends``; the import has done the work."""
