"""Records that outlive their writer, and messages that cross as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_accel.runner.journal import Journal, asked, records, unfinished
from pytest_accel.runner.protocol import Channel, Closed, Late, Quit, Result, SetUp, decode, encode
from pytest_accel.runner.types import Request

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(key=st.text(), params=st.dictionaries(st.text(), plain), timeout=st.floats(0, allow_infinity=True))
def test_a_request_crosses_as_it_was_on_one_line(key, params, timeout):
    request = Request(key, "a:b", params, {}, timeout)
    line = encode(request)
    assert line.count(b"\n") == 1
    assert decode(line) == request


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'["Other", {}]', b'["Quit", {"x": 1}]', b"\xff"])
def test_a_line_that_is_no_message_is_refused(line):
    with pytest.raises((ValueError, TypeError)):
        decode(line)


def channels():
    (a, b), (c, d) = os.pipe(), os.pipe()
    return Channel(a, d), Channel(c, b)


def test_a_channel_keeps_messages_apart_and_waits_no_longer_than_told():
    ours, theirs = channels()
    theirs.send(SetUp("a:b"))
    theirs.send(Quit())
    assert ours.receive() == SetUp("a:b")
    assert ours.receive() == Quit()
    begin = time.monotonic()
    with pytest.raises(Late):
        ours.receive(time.monotonic() + 0.05)
    assert 0.04 < time.monotonic() - begin < 2
    with pytest.raises(Late):  # nobody reads: a message larger than the pipe must not hang either
        ours.send(Result({"notes": "x" * 1_000_000}), time.monotonic() + 0.05)
    theirs.close()
    with pytest.raises(Closed):
        ours.receive()
    with pytest.raises(Closed):
        ours.send(Quit())
    ours.close()
    ours.close()


def test_garbage_closes_the_conversation():
    ours, theirs = channels()
    os.write(theirs.writing, b"garbage\n")
    with pytest.raises(Closed):
        ours.receive()
    ours.close()
    theirs.close()


def test_a_journal_tells_what_was_started_and_never_finished(tmp_path):
    journal = Journal(tmp_path / "run" / "gw0.jsonl")
    journal.asked(["a", "b", "c", "d"])
    for name in "abc":
        journal.started(name)
    journal.started("c")
    journal.finished("b")
    journal.close()
    journal.close()
    assert asked(journal.path) == ["a", "b", "c", "d"]
    assert unfinished(journal.path) == ["a", "c"]
    assert unfinished(tmp_path / "none.jsonl") == []


def test_a_cut_last_line_is_left_out(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    journal.started("first ü\n")
    journal.started("second")
    whole = journal.path.read_bytes()
    for length in range(len(whole)):
        journal.path.write_bytes(whole[:length])
        assert unfinished(journal.path) in ([], ["first ü\n"], ["first ü\n", "second"])
    journal.path.write_bytes(b'7\n"x"\n' + whole)
    assert [record["name"] for record in records(journal.path)] == ["first ü\n", "second"]
    journal.close()


def test_a_writer_that_is_killed_leaves_what_it_wrote(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from pytest_accel.runner.journal import Journal\n"
        "journal = Journal(Path(sys.argv[1])); journal.started('third'); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "j.jsonl")], check=False)
    assert unfinished(tmp_path / "j.jsonl") == ["third"]
