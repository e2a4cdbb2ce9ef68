"""Alembic's environment: migrations run on the connection that the store hands over."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table="accel_schema")
with context.begin_transaction():
    context.run_migrations()
