"""What the kernel and the C library say of this process's memory, held against memory that is really taken."""

from __future__ import annotations

import mmap

import pytest

from pytest_accel.measure import host_memory

SIZE = 40 * 2**20
needs_counts = pytest.mark.skipif(host_memory.live_bytes() is None, reason="this C library does not count")


@needs_counts
def test_live_memory_follows_what_is_taken_and_given_back():
    before = host_memory.live_bytes()
    block = bytearray(SIZE)
    with_block = host_memory.live_bytes()
    held = host_memory.held_bytes()
    assert held is not None
    assert with_block - before == pytest.approx(SIZE, abs=2**16)
    assert held >= with_block
    del block
    assert host_memory.live_bytes() - before == pytest.approx(0, abs=2**16)


@needs_counts
def test_the_looking_thread_sees_a_peak_that_is_gone_afterwards():
    before = host_memory.live_bytes()
    with host_memory.LivePeak() as peak:
        for _ in range(5):
            block = bytearray(SIZE)
            del block
    assert peak.bytes - before == pytest.approx(SIZE, abs=2**20)
    assert host_memory.live_bytes() - before < SIZE / 2


def test_memory_taken_ahead_is_committed_at_once_and_resident_when_touched():
    committed, resident = host_memory.committed_bytes(), host_memory.resident_bytes()
    if committed is None or resident is None:
        pytest.skip("this system has no /proc/self/status")
    cache = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    assert host_memory.committed_bytes() - committed == pytest.approx(SIZE, abs=2**20)
    assert host_memory.resident_bytes() - resident < SIZE / 2
    cache.write(b"x" * SIZE)
    assert host_memory.resident_bytes() - resident > SIZE / 2
    cache.close()


def test_the_resident_peak_can_be_started_anew():
    if not host_memory.reset_peak():
        pytest.skip("this kernel does not let a process reset its peak")
    before = host_memory.peak_resident_bytes()
    cache = mmap.mmap(-1, SIZE)
    cache.write(b"x" * SIZE)
    cache.close()
    assert host_memory.peak_resident_bytes() - before > 0.9 * SIZE
    assert host_memory.reset_peak()
    assert host_memory.peak_resident_bytes() < before + SIZE / 2


def test_another_allocator_is_not_mistaken_for_glibcs(monkeypatch):
    libc = host_memory._libc()
    if libc is None:
        pytest.skip("this C library does not count")
    host_memory._libc.cache_clear()
    monkeypatch.setattr(host_memory, "_live", lambda libc: 0)
    try:
        assert host_memory._libc() is None
    finally:
        host_memory._libc.cache_clear()
