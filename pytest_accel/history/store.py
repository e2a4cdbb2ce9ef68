"""Every run in SQL: opening (with migrations), adding, pruning, exporting. Needs the extra ``history``."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.errors import ConfigError, Problem
from pytest_accel.locks import LockTimeout, exclusive

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

LOCK_WAIT = 60.0  # seconds
MIGRATION_LOCK = 7_203_441  # any fixed number: the advisory lock of migrations
CHUNK = 5000


@dataclass(frozen=True)
class Run:
    """One run as the history holds it."""

    id: str
    started: str
    platform: str
    hardware: str
    exit_code: int
    verdict: str
    stack: Mapping[str, Any]


def url_of(text: str) -> str:
    """A SQLAlchemy URL as it is; a plain path is a SQLite file."""
    return text if "://" in text else f"sqlite:///{Path(text).expanduser().absolute()}"


@contextmanager
def opened(text: str) -> Iterator[Engine]:
    """The history at a URL or path, brought to the newest schema. Raises ConfigError where it cannot be opened."""
    try:
        from sqlalchemy import create_engine
        from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
    except ImportError:
        raise ConfigError(
            Problem("a history needs sqlalchemy and alembic", "pip install 'pytest-accel[history]'")
        ) from None
    url = url_of(text)
    shown = masked(url)
    try:
        engine = create_engine(url, connect_args={"timeout": LOCK_WAIT} if url.startswith("sqlite") else {})
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        what = f"history {shown}: {_first_line(error)}"
        raise ConfigError(Problem(what, "give a path, or a URL such as postgresql+psycopg://user@host/name")) from error
    try:
        _cascade(engine)
        _migrate(engine, url)
        yield engine
    except LockTimeout as error:
        raise ConfigError(Problem(f"history {shown}: {error}", "wait for the other run, or end it")) from error
    except OSError as error:
        what = f"history {shown}: {error.strerror or error}"
        raise ConfigError(Problem(what, "name a place that you may write to")) from error
    except SQLAlchemyError as error:
        what = f"history {shown}: {_first_line(error)}"
        raise ConfigError(Problem(what, "check that the server answers and that you may write there")) from error
    finally:
        engine.dispose()


def add(text: str, document: Mapping[str, Any]) -> bool:
    """Store a results document; False where this run is there already. Raises ConfigError."""
    from sqlalchemy import insert, select

    from pytest_accel.history.schema import RUNS, VALUES

    run = document["run"]
    with opened(text) as engine, _writing(engine, text) as connection:
        if connection.execute(select(RUNS.c.id).where(RUNS.c.id == run["id"])).first():
            return False
        connection.execute(insert(RUNS), [_run(document)])
        rows = [row for case in document["cases"] for row in _rows(run["id"], case)]
        for begin in range(0, len(rows), CHUNK):
            connection.execute(insert(VALUES), rows[begin : begin + CHUNK])
    return True


def prune(text: str, keep_days: int, now: datetime.datetime | None = None) -> int:
    """Remove the runs that started more than ``keep_days`` days ago, with their values; returns how many."""
    from sqlalchemy import delete, select

    from pytest_accel.history.schema import RUNS, VALUES

    since = (now or datetime.datetime.now(datetime.timezone.utc)) - datetime.timedelta(days=keep_days)
    with opened(text) as engine, _writing(engine, text) as connection:
        old = select(RUNS.c.id).where(RUNS.c.started < since.isoformat())
        connection.execute(delete(VALUES).where(VALUES.c.run_id.in_(old)))
        return int(connection.execute(delete(RUNS).where(RUNS.c.started < since.isoformat())).rowcount)


def runs(engine: Engine, *, last: int, platform: str | None = None) -> list[Run]:
    """The newest ``last`` runs, oldest first."""
    from sqlalchemy import select

    from pytest_accel.history.schema import RUNS

    query = select(RUNS).order_by(RUNS.c.started.desc(), RUNS.c.id.desc()).limit(last)
    if platform:
        query = query.where(RUNS.c.platform == platform)
    with engine.connect() as connection:
        found = connection.execute(query).mappings().all()
    fields = ("id", "started", "platform", "hardware", "exit_code", "verdict", "stack")
    return [Run(**{name: row[name] for name in fields}) for row in reversed(found)]


def export(text: str, target: Path) -> int:
    """Write all values, joined with their runs, to a Parquet file; returns the number of rows. Raises ConfigError."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(Problem("Parquet needs pyarrow", "pip install 'pytest-accel[parquet]'")) from None
    from sqlalchemy import select

    from pytest_accel.history.schema import RUNS, VALUES

    columns = [RUNS.c.started, RUNS.c.platform, RUNS.c.hardware, *[c for c in VALUES.c if c.name != "id"]]
    names = [column.name for column in columns]
    kinds = {"value": pyarrow.float64(), "baseline": pyarrow.float64()}
    shape = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in names])
    count = 0
    partial = target.with_name(f".{target.name}.part")
    try:
        with opened(text) as engine, engine.connect() as connection, parquet.ParquetWriter(partial, shape) as writer:
            query = select(*columns).join(RUNS, RUNS.c.id == VALUES.c.run_id).order_by(RUNS.c.started, VALUES.c.id)
            for rows in connection.execution_options(yield_per=50_000).execute(query).partitions():
                table = {name: [row[i] for row in rows] for i, name in enumerate(names)}
                writer.write_table(pyarrow.Table.from_pydict(table, schema=shape))
                count += len(rows)
        partial.replace(target)
    except OSError as error:
        raise ConfigError.at(
            target, None, f"cannot be written: {error.strerror or error}", "name another file"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def masked(url: str) -> str:
    """The URL without its credentials."""
    from pytest_accel.report.json_report import mask

    return mask(url)


@contextmanager
def _writing(engine: Engine, text: str) -> Iterator[Connection]:
    """One transaction; on SQLite one writer at a time, which waits in a queue and not in a busy loop."""
    if engine.dialect.name == "sqlite" and engine.url.database:
        with exclusive(Path(engine.url.database).parent, LOCK_WAIT), engine.begin() as connection:
            yield connection
    else:
        with engine.begin() as connection:
            yield connection


def _cascade(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        from sqlalchemy import event

        @event.listens_for(engine, "connect")
        def _on_connect(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA foreign_keys=ON")


def _migrate(engine: Engine, url: str) -> None:
    """Bring the schema to the newest version, one process at a time."""
    from alembic.script import ScriptDirectory
    from sqlalchemy import text as sql

    folder = Path(__file__).parent / "migrations"
    if engine.dialect.name == "sqlite" and engine.url.database:
        Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)
    head = ScriptDirectory(str(folder)).get_current_head()
    with engine.connect() as connection:
        if _version(connection) == head:
            return
    if engine.dialect.name == "sqlite" and engine.url.database:
        with exclusive(Path(engine.url.database).parent, LOCK_WAIT), engine.begin() as connection:
            _upgrade(connection, folder)
        return
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sql("SELECT pg_advisory_xact_lock(:number)"), {"number": MIGRATION_LOCK})
        _upgrade(connection, folder)


def _version(connection: Connection) -> str | None:
    from alembic.migration import MigrationContext

    return MigrationContext.configure(connection, opts={"version_table": "accel_schema"}).get_current_revision()


def _upgrade(connection: Connection, folder: Path) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigError(
            Problem(
                f"the history was written by a newer pytest-accel: {error}",
                "upgrade pytest-accel, or use another history",
            )
        ) from error


def _run(document: Mapping[str, Any]) -> dict[str, Any]:
    run, stack = document["run"], document.get("stack") or {}
    parts = {part: stack.get(part) or {} for part in ("hardware", "settings", "versions")}
    return {
        "id": str(run["id"]),
        "started": str(run["started"]),
        "seconds": float(run.get("seconds") or 0.0),
        "platform": str(stack.get("platform") or "?")[:40],
        "hardware": str(parts["hardware"].get("name") or "?")[:200],
        "exit_code": int(run["exit_code"]),
        "verdict": str((document.get("summary") or {}).get("verdict") or "?")[:40],
        "stack": parts,
    }


def _rows(run_id: str, case: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    common = {
        "run_id": str(run_id),
        "key": _text(case["key"]),
        "suite": _text(case["suite"])[:200],
        "verdict": str(case["verdict"]),
        "code": _text(case.get("code") or "")[:80],
    }
    nothing = {"metric": "", "value": None, "word": None, "unit": "", "better": "", "baseline": None}
    if not case.get("metrics"):
        yield {**common, **nothing}
    for name, metric in (case.get("metrics") or {}).items():
        value, baseline = _number(metric.get("value")), _number(metric.get("baseline"))
        yield {
            **common,
            "metric": _text(name)[:200],
            "value": value,
            "word": None if value is not None else _word(metric.get("value")),
            "unit": _text(metric.get("unit") or "")[:40],
            "better": str(metric.get("better") or "")[:10],
            "baseline": baseline,
        }


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _word(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, Mapping) and "nonfinite" in value:
        return str(value["nonfinite"])
    return _text(value)


def _text(value: object) -> str:
    """Text that every database takes: no NUL, no lone surrogates."""
    return str(value).replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _first_line(error: BaseException) -> str:
    lines: Sequence[str] = str(error).splitlines() or [type(error).__name__]
    return masked(lines[0])
