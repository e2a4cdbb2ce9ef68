"""Runs in SQL: on SQLite always, on PostgreSQL where a server can be started here."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from pytest_accel.cli import main
from pytest_accel.errors import ConfigError
from pytest_accel.files import encode
from pytest_accel.history import store
from pytest_accel.history.trend import _series, stack_changes, write_trend

NUL = "nul \x00 and a lone surrogate \udcff and <script>"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The URL of a PostgreSQL server of this test's own, on a socket in its folder."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = str(found[-1]) if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("no PostgreSQL server on this machine: install Debian's package `postgresql`")
    folder = tmp_path_factory.mktemp("pg")
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")
        for parent in folder.parents:
            if parent.stat().st_uid == 0 and str(parent).startswith("/tmp/"):
                parent.chmod(parent.stat().st_mode | 0o055)
    ctl = str(Path(initdb).resolve().with_name("pg_ctl"))
    data = folder / "data"
    subprocess.run([*as_user, initdb, "-D", str(data), "-U", "me", "-A", "trust"], check=True, capture_output=True)
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    subprocess.run(
        [*as_user, ctl, "-D", str(data), "-o", options, "-w", "start"], check=True, stdout=subprocess.DEVNULL
    )
    yield f"postgresql+psycopg://me@/postgres?host={folder}"
    subprocess.run([*as_user, ctl, "-D", str(data), "-m", "immediate", "stop"], check=True, capture_output=True)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "deep" / "history.sqlite")
    found = request.getfixturevalue("postgres")
    with store.opened(found) as engine, engine.begin() as connection:
        connection.execute(text("delete from accel_values"))
        connection.execute(text("delete from accel_runs"))
    return found


@pytest.fixture
def run_of(made):
    """A results document of one run: a timing and a word, on a day of November."""

    def build(number, time=10.0, torch="2.9", word="supported", key="s/c[n=1]"):
        metrics = {"time": made.metric(time, baseline=10.0), "status": made.metric(word, unit="", better="equal")}
        started = datetime.datetime(2026, 11, number, tzinfo=datetime.timezone.utc).isoformat()
        data = made.document([made.case(key=key, metrics=metrics)], id=f"r{number}", started=started)
        data["stack"] = {
            "platform": "cpu",
            "hardware": {"name": "chip"},
            "settings": {},
            "versions": {"torch": torch, "python": "3.11"},
        }
        return encode(data)

    return build


def test_a_run_is_stored_once_and_read_back(url, run_of):
    assert store.add(url, run_of(3, time=12.5, key=NUL)) is True
    assert store.add(url, run_of(3)) is False
    with store.opened(url) as engine:
        assert [run.id for run in store.runs(engine, last=5)] == ["r3"]
        with engine.connect() as connection:
            rows = connection.execute(
                text("select metric, value, word, baseline from accel_values order by metric")
            ).all()
    assert [tuple(row) for row in rows] == [("status", None, "supported", None), ("time", 12.5, None, 10.0)]


def test_non_finite_values_are_kept_as_words(url, run_of):
    store.add(url, run_of(1, time=float("nan")))
    with store.opened(url) as engine, engine.connect() as connection:
        row = connection.execute(text("select value, word from accel_values where metric = 'time'")).one()
    assert tuple(row) == (None, "nan")


def test_old_runs_are_pruned_with_their_values(url, run_of):
    for day in (1, 10, 20):
        store.add(url, run_of(day))
    assert store.prune(url, 12, datetime.datetime(2026, 11, 25, tzinfo=datetime.timezone.utc)) == 2
    with store.opened(url) as engine:
        assert [run.id for run in store.runs(engine, last=5)] == ["r20"]
        with engine.connect() as connection:
            assert connection.execute(text("select count(*) from accel_values")).scalar_one() == 2


def test_a_trend_marks_the_run_whose_stack_changed_and_puts_the_worst_first(url, run_of, tmp_path):
    for day in range(1, 9):
        store.add(url, run_of(day, time=10.0 if day < 6 else 13.0, torch="2.9" if day < 6 else "2.10"))
    with store.opened(url) as engine:
        found = store.runs(engine, last=90)
        assert stack_changes(found) == [(5, {"versions.torch": ["2.9", "2.10"]})]
        series = _series(engine, found)
    assert series[0].metric == "time"
    assert series[0].change == pytest.approx(0.3)
    page = write_trend(url, tmp_path)[0].read_text()
    assert "2.10" in page
    assert page.count("<polyline") == 1


def test_a_level_that_moved_stands_on_the_trend_page_with_the_stack_change_beside_it(run_of, tmp_path):
    url = str(tmp_path / "history.sqlite")
    for day in range(1, 25):
        time = (10.0 if day < 13 else 11.0) + 0.01 * (day % 3)
        store.add(url, run_of(day, time=time, torch="2.9" if day < 13 else "2.10"))
    page = write_trend(url, tmp_path)[0].read_text()
    section = page[page.index("Level changes") : page.index("Variants, the most")]
    assert section.count("<tr>") == 2, "the head and one change"
    assert "2026-11-13T" in section
    assert "+10" in section
    assert "versions.torch" in section


def test_a_trend_without_ruptures_says_that_level_changes_were_not_looked_for(run_of, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ruptures", None)
    url = str(tmp_path / "history.sqlite")
    for day in range(1, 15):
        store.add(url, run_of(day))
    assert "ruptures is not installed" in write_trend(url, tmp_path)[0].read_text()


WRITER = """
import json, sys
from pytest_accel.history import store
url, path, first, count = sys.argv[1:]
data = json.load(open(path))
for n in range(int(first), int(first) + int(count)):
    data["run"]["id"] = f"w{n}"
    assert store.add(url, data)
"""


def test_four_writers_at_once_on_an_empty_history_lose_nothing(url, run_of, made, tmp_path):
    if url.startswith("postgresql"):
        with store.opened(url) as engine, engine.begin() as connection:
            for table in ("accel_values", "accel_runs", "accel_schema"):
                connection.execute(text(f"drop table {table}"))
    path = made.written(tmp_path, run_of(1))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, str(path), str(10 * n), "5"], stderr=subprocess.PIPE, text=True
        )
        for n in range(4)
    ]
    problems = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0], problems
    with store.opened(url) as engine:
        assert len(store.runs(engine, last=100)) == 20


def test_parquet_holds_every_value_with_its_run(url, run_of, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for day in (1, 2, 3):
        store.add(url, run_of(day))
    assert store.export(url, tmp_path / "all.parquet") == 6
    table = parquet.read_table(tmp_path / "all.parquet").to_pydict()
    assert table["started"] == sorted(table["started"])
    assert set(zip(table["metric"], table["value"], strict=True)) == {("time", 10.0), ("status", None)}


def test_a_history_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path, run_of):
    url = str(tmp_path / "h.sqlite")
    store.add(url, run_of(1))
    with store.opened(url) as engine, engine.begin() as connection:
        connection.execute(text("update accel_schema set version_num = '9999'"))
    with pytest.raises(ConfigError, match="newer pytest-accel"):
        store.add(url, run_of(2))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense://x", "nonsense"),
        ("postgresql+psycopg://user:secret@127.0.0.1:9/none", "127.0.0.1"),
        ("/proc/no/such/place.sqlite", "/proc"),
    ],
)
def test_a_history_that_cannot_be_opened_is_one_message_without_the_password(url, says, capsys):
    assert main(["history", url]) == 4
    said = capsys.readouterr().err
    assert says in said
    assert "secret" not in said
    assert "Traceback" not in said


def test_the_command_adds_lists_and_exports(made, run_of, tmp_path, capsys):
    path = made.written(tmp_path, run_of(4))
    url = str(tmp_path / "h.sqlite")
    assert main(["history", url, "--add", str(path)]) == 0
    assert main(["history", url, "--add", str(path)]) == 0
    assert main(["history", url]) == 0
    said = capsys.readouterr().out
    assert "stored" in said
    assert "is there already" in said
    assert "r4" in said
