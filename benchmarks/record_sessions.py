"""Record sessions for ``detection_power.py``: each a fresh process that times twelve cases with the plugin's own clock.

    python3 benchmarks/record_sessions.py --sessions 12 --out sessions.json

``--sessions`` unchanged ones, and ``--slow`` of each with 2 % and 5 % more work, spread among them. The file is written after
every session, and a file that is there is added to, so several short runs, and several devices, make one. The device is named
by the hash that baselines use. About 25 s a session on an H200; ``--budget`` seconds bound the whole.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from session_cases import CASES, WORKLOADS

ABOUT = (
    "Raw timings, one entry per process (session), microseconds. device_us: device events, the cache flushed before each "
    "sample, after a warm-up under load; host_sync_us: host clock with a synchronize after each call. mode base: unchanged; "
    "slow2/slow5: one dimension of each case 2 % / 5 % larger. gpu: hash of the physical device."
)
MODES = {"base": 1.0, "slow2": 1.02, "slow5": 1.05}
HOST_SAMPLES = 40
MOST_SAMPLES = 200  # of one case: evenly thinned above, so that the file stays small
TIMEOUT = 240


def one(mode: str, small: int, min_time: float) -> dict[str, Any]:
    """Time all cases in this process, on the accelerator where there is one, else on the host."""
    import torch

    from pytest_accel.measure.accelerator import Accelerator
    from pytest_accel.stack.choose import choose
    from pytest_accel.stack.host import Host
    from pytest_accel.stack.loaded import loaded_stack
    from pytest_accel.stack.registry import platform

    torch.manual_seed(0)
    machine = choose("auto", Host(), None)
    if machine.unfit is not None:
        raise SystemExit(f"{machine.unfit[0]}: {machine.unfit[1]}")
    probe, kind = machine.probe, platform(machine.platform)
    known = {"hardware": dict(probe.hardware), "settings": dict(probe.settings), "versions": dict(probe.versions)}
    accel = Accelerator(kind, 0, loaded_stack(kind, 0, known))
    cases: dict[str, dict[str, list[float]]] = {}
    for name, make in CASES.items():
        run = make(accel.device, MODES[mode], small)
        times = accel.time(run, min_time=min_time, min_samples=30)
        host = []
        for _ in range(HOST_SAMPLES):
            began = time.perf_counter()
            run()
            accel.synchronize()
            host.append((time.perf_counter() - began) * 1e6)
        kept = times[:: math.ceil(len(times) / MOST_SAMPLES)]
        cases[name] = {"device_us": [round(t, 3) for t in kept], "host_sync_us": [round(t, 1) for t in host]}
        del run
    identity = (probe.devices[0].identity if probe.devices else "") or machine.machine_id
    stack = {"name": str(probe.hardware.get("name", "")), "torch": torch.__version__}
    return {"gpu": identity, "mode": mode, "stack": stack, "cases": cases}


def plan(sessions: int, slow: int) -> list[str]:
    """The modes in order: the slow ones spread among the unchanged ones, so that a drift of the machine meets all alike."""
    every = ["base"] * sessions
    for index in range(slow):
        for mode in ("slow5", "slow2"):
            every.insert(round((index + 1) * len(every) / (slow + 1)), mode)
    return every


def main() -> int:
    """Record, or (``--one``, for this script itself) time the cases of one session. 1 where a session failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=12, help="unchanged sessions (default: 12)")
    parser.add_argument("--slow", type=int, default=3, help="sessions of each slow mode (default: 3)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--budget", type=float, default=560, help="start no session after so many seconds (default: 560)"
    )
    parser.add_argument("--small", type=int, default=1, help="divide sizes, to try it on a CPU")
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds of samples a case, as workloads have it")
    parser.add_argument("--one", choices=MODES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        asked.out.write_text(json.dumps(one(asked.one, asked.small, asked.min_time)), encoding="utf-8")
        return 0
    data = {"about": ABOUT, "resolution_us": 0.05, "workloads": WORKLOADS, "sessions": []}
    if asked.out.exists():
        data = json.loads(asked.out.read_text(encoding="utf-8"))
    began, longest, failed = time.monotonic(), 0.0, 0
    for mode in plan(asked.sessions, asked.slow):
        started = time.monotonic()
        if started - began + longest > asked.budget:
            print("stopped: the budget is spent", file=sys.stderr)
            break
        with tempfile.TemporaryDirectory() as folder:
            part = Path(folder) / "session.json"
            said = [
                *("--one", mode, "--out", str(part)),
                *("--small", str(asked.small)),
                *("--min-time", str(asked.min_time)),
            ]
            code = subprocess.run([sys.executable, __file__, *said], timeout=TIMEOUT, check=False).returncode
            longest = max(longest, time.monotonic() - started)
            if code:
                print(f"{mode}: the session failed (exit code {code})", file=sys.stderr)
                failed += 1
                continue
            session = json.loads(part.read_text(encoding="utf-8"))
        session["order"] = 1 + max((s["order"] for s in data["sessions"]), default=0)
        data["sessions"].append(session)
        asked.out.write_text(json.dumps(data) + "\n", encoding="utf-8")
        print(f"{session['order']:3d} {mode:6s} {session['gpu'][:8]} {time.monotonic() - started:5.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
