"""One benchmark's record on its way from an xdist worker to the controller, which prints, saves and compares as ever."""

from __future__ import annotations

import base64
import json
import marshal
import pstats
from typing import Any

from pytest_benchmark.stats import Metadata, Stats
from pytest_benchmark.utils import safe_dumps


class Gathered(Metadata):  # type: ignore[misc]
    """A benchmark that another process measured, as pytest-benchmark's session takes it."""

    def __init__(self, record: dict[str, Any]) -> None:
        for name in ("name", "fullname", "group", "param", "params", "extra_info", "options"):
            setattr(self, name, record[name])
        self.iterations = record["stats"]["iterations"]
        self.stats = Stats()
        self.stats.data = record["stats"]["data"]
        self.cprofile_stats = _profile(record["profile"]) if record["profile"] else None
        self._has_error = bool(record["has_error"])

    @property
    def has_error(self) -> bool:
        """True where the test failed while it was measured."""
        return self._has_error


def packed(benchmark: Metadata) -> str:
    """A benchmark as text. Values that JSON lacks become what pytest-benchmark would write into its own files."""
    profile = benchmark.cprofile_stats
    record = {
        **benchmark.as_dict(include_data=True),
        "has_error": benchmark.has_error,
        "profile": base64.b64encode(marshal.dumps(profile.stats)).decode() if profile else None,
    }
    record.pop("cprofile", None)
    return str(safe_dumps(record))


def unpacked(text: str) -> Gathered:
    """The benchmark in a text that ``packed`` made."""
    return Gathered(json.loads(text))


class _Profile:
    """What ``pstats.Stats`` takes for a profile."""

    def __init__(self, stats: Any) -> None:
        self.stats = stats

    def create_stats(self) -> None:
        """The statistics are there already."""


def _profile(text: str) -> pstats.Stats:
    return pstats.Stats(_Profile(marshal.loads(base64.b64decode(text))))  # type: ignore[arg-type]
