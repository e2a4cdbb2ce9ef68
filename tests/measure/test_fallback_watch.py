"""Falls to the host are seen in Python warnings and in the process's own stderr, also where the warning is spent."""

from __future__ import annotations

import warnings

import pytest

from pytest_accel.measure import fallback
from pytest_accel.measure.fallback import FallbackWatch

pytest.importorskip("torch")
TEXT = (
    "CAUTION: The operator 'aten::isin.Tensor_Tensor_out' is not supported here and will fall back to run on the CPU."
)


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(fallback, "SEEN", {})


def never(text):
    return "other"


def test_a_python_warning_of_a_fall_back_is_kept_even_where_filters_hide_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            with FallbackWatch(never) as watch:
                warnings.warn(TEXT, stacklevel=1)
            assert watch.texts == [TEXT]


def test_other_warnings_are_shown_again():
    with pytest.warns(UserWarning, match="unrelated"), FallbackWatch(never) as watch:
        warnings.warn("unrelated", stacklevel=1)
    assert watch.texts == []


def test_only_what_is_written_to_stderr_between_begin_and_end_counts():
    written = ["falls back to the CPU, long ago\n"]
    with FallbackWatch(never, lambda: "".join(written)) as watch:
        written.append(f"[W] {TEXT}\nother\n")
    assert watch.texts == [f"[W] {TEXT}"]


def test_the_platforms_own_reading_of_a_message_decides_too():
    with FallbackWatch(lambda text: "fallback" if "host kernel" in text else "other") as watch:
        warnings.warn("used a host kernel", stacklevel=1)
    assert watch.texts == ["used a host kernel"]


def test_a_spent_warning_is_remembered_by_the_operators_base_name():
    with FallbackWatch(never) as watch:
        warnings.warn(TEXT, stacklevel=1)
    assert watch.texts
    assert fallback.spent({"isin", "add"}) == TEXT
    assert fallback.spent({"add"}) is None


@pytest.mark.parametrize(
    ("text", "falls"),
    [
        ("Warning: kernel [gcd.out] falls back to the CPU", True),
        ("The operator aten::logit, aten::logit_ is currently not supported. It will fallback to run on the CPU", True),
        ("loading tokenizer: falling back to the slow CPU path", False),
        ("NCCL: no IB device, falling back to host sockets", False),
        ("an operator that was fast", False),
    ],
)
def test_only_operators_that_fall_to_the_host_count(text, falls):
    assert fallback.means_fallback(text, never) is falls


def _warn_often():
    with FallbackWatch(never):
        for _ in range(50):
            warnings.warn("often", stacklevel=1)


def test_a_warning_that_repeats_is_shown_once_a_place():
    with pytest.warns(UserWarning, match="often") as shown:
        _warn_often()
    assert len(shown) == 1


def test_warnings_before_the_first_watch_are_remembered():
    written = [f"[W] {TEXT}\n", "[W] Warning: kernel [gcd.out] is not supported. It falls back to the CPU\n"]
    fallback._READ[0] = 0
    fallback.remember_past(never, lambda: "".join(written))
    assert set(fallback.SEEN) == {"isin", "gcd"}


def test_the_operators_of_a_call_are_recorded_with_its_result():
    import torch

    result, names = fallback.recorded(lambda: torch.ones(3).sum().item())
    assert result == 3.0
    assert {"ones", "sum"} <= names
