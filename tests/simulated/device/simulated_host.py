"""Lets pytest-accel see the simulated machine's files where it would read this one's: every ``Host`` is rooted there.

Loaded by an entry point in ``pytest11``, and in measuring processes by the simulated torch_npu.
"""

from __future__ import annotations

import os

from pytest_accel.stack.host import Host

_own = Host.__init__


def _rooted(self, root="/", *args, **kwargs) -> None:
    root = os.environ.get("SIM_NPU_ROOT", root) if str(root) == "/" else root
    _own(self, root, *args, **kwargs)


Host.__init__ = _rooted
