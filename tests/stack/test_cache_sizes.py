"""How much must be written to empty a chip's last-level cache: device queries tell less than there is on some chips."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_accel.stack.roofs import ROOFS, cache_bytes
from pytest_accel.stack.torch_like import TorchLike

MIB = 2**20


@pytest.mark.parametrize(
    ("slug", "queried", "size"),
    [
        ("nvidia-h200", 50 * MIB, 50 * MIB),
        ("nvidia-unheard-of", 0, 0),
        ("amd-mi350x", 4 * MIB, 256 * MIB),  # torch tells the second level, the memory's own cache stands behind it
        ("amd-mi300x", 4 * MIB, 256 * MIB),
        ("amd-mi210", 8 * MIB, 8 * MIB),
        ("ascend-910b3", 0, 192 * MIB),
        ("ascend-910b3", 100 * MIB, 100 * MIB),
    ],
)
def test_the_cache_is_the_queried_one_or_the_one_known_to_stand_behind_it(slug, queried, size):
    assert cache_bytes(slug, queried) == size


def test_every_chip_of_amds_third_generation_with_a_roof_has_its_memory_side_cache():
    slugs = [slug for slug in ROOFS if slug.startswith("amd-mi3")]
    assert len(slugs) >= 4
    assert {cache_bytes(slug, 4 * MIB) for slug in slugs} == {256 * MIB}


def test_a_platform_asks_its_module_and_the_table_by_the_name_that_torch_gives(monkeypatch):
    class Amd(TorchLike):
        name, vendor, device_type = "amd", "amd", "cuda"

    properties = SimpleNamespace(name="AMD Instinct MI350X", L2_cache_size=4 * MIB)
    module = SimpleNamespace(get_device_properties=lambda index: properties)
    monkeypatch.setattr(Amd, "_module", lambda self: module)
    assert Amd().cache_bytes(0) == 256 * MIB


def test_a_device_module_without_graphs_has_none_and_one_with_them_warms_up_before_it_captures(monkeypatch):
    done = []

    class Stream:
        def __init__(self, device=None):
            pass

        def wait_stream(self, other):
            done.append("wait")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    class Capture:
        def __init__(self, graph):
            pass

        def __enter__(self):
            done.append("capture")

        def __exit__(self, *_):
            done.append("end")

    class Some(TorchLike):
        name, vendor, device_type = "some", "some", "some"

    module = SimpleNamespace()
    monkeypatch.setattr(Some, "_module", lambda self: module)
    assert Some().graph(0, lambda: done.append("work")) is None
    module.CUDAGraph = lambda: SimpleNamespace(replay=lambda: done.append("replay"))
    module.graph, module.Stream, module.stream = Capture, Stream, lambda stream: stream
    module.current_stream = lambda index: Stream()
    replay = Some().graph(0, lambda: done.append("work"))
    replay()
    assert done == ["wait", "work", "work", "work", "wait", "capture", "work", "end", "replay"]
