"""Runs and their values."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the two tables."""
    op.create_table(
        "accel_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("started", sa.String(40), nullable=False, index=True),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("platform", sa.String(40), nullable=False),
        sa.Column("hardware", sa.String(200), nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=False),
        sa.Column("verdict", sa.String(40), nullable=False),
        sa.Column("stack", sa.JSON, nullable=False),
    )
    op.create_table(
        "accel_values",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("run_id", sa.String(64), sa.ForeignKey("accel_runs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("suite", sa.String(200), nullable=False),
        sa.Column("verdict", sa.String(20), nullable=False),
        sa.Column("code", sa.String(80), nullable=False),
        sa.Column("metric", sa.String(200), nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("word", sa.Text),
        sa.Column("unit", sa.String(40), nullable=False),
        sa.Column("better", sa.String(10), nullable=False),
        sa.Column("baseline", sa.Float),
    )
    op.create_index("accel_values_by_key", "accel_values", ["key", "metric", "run_id"])
    op.create_index("accel_values_by_run", "accel_values", ["run_id"])
