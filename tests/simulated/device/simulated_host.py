"""Lets pytest-accel see the simulated machine's files where it would read this one's: every ``Host`` is rooted there.

Loaded by an entry point in ``pytest11``, and in measuring processes by the simulated back end. ``SIM_ROOT`` is the folder;
``SIM_TORCH_HIP`` makes the installed torch's own file say that it was built for that HIP.
"""

from __future__ import annotations

import os

from pytest_accel.stack.host import Host

_own = Host.__init__
_file = Host.package_file


def _rooted(self, root="/", *args, **kwargs) -> None:
    root = os.environ.get("SIM_ROOT", root) if str(root) == "/" else root
    _own(self, root, *args, **kwargs)


def _package_file(self, name, relative):
    text = _file(self, name, relative)
    hip = os.environ.get("SIM_TORCH_HIP")
    if hip is None or text is None or (name, relative) != ("torch", "torch/version.py"):
        return text
    kept = [line for line in text.splitlines() if not line.startswith(("cuda", "hip"))]
    return "\n".join([*kept, "cuda = None", f"hip = {hip!r}", ""])


Host.__init__ = _rooted
Host.package_file = _package_file
