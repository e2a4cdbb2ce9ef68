"""The tables of the history. A change here needs a migration in ``migrations/versions``."""

from __future__ import annotations

from sqlalchemy import JSON, Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text

METADATA = MetaData()

RUNS = Table(
    "accel_runs",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("started", String(40), nullable=False, index=True),  # ISO text in UTC: sorts by time in every database
    Column("seconds", Float, nullable=False, default=0.0),
    Column("platform", String(40), nullable=False),
    Column("hardware", String(200), nullable=False),
    Column("exit_code", Integer, nullable=False),
    Column("verdict", String(40), nullable=False),
    Column("stack", JSON, nullable=False),
)

VALUES = Table(
    "accel_values",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(64), ForeignKey("accel_runs.id", ondelete="CASCADE"), nullable=False),
    Column("key", Text, nullable=False),
    Column("suite", String(200), nullable=False),
    Column("verdict", String(20), nullable=False),  # of the variant
    Column("code", String(80), nullable=False, default=""),
    Column("metric", String(200), nullable=False, default=""),  # empty where the variant gave no metric
    Column("value", Float),
    Column("word", Text),  # where the value is a word, or not finite
    Column("unit", String(40), nullable=False, default=""),
    Column("better", String(10), nullable=False, default=""),
    Column("baseline", Float),
    Index("accel_values_by_key", "key", "metric", "run_id"),
    Index("accel_values_by_run", "run_id"),
)
