"""Telling somebody about a red run: a command of the user's, with a message on its standard input. Off by default."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

from pytest_accel.report.results import Results, answer

TIMEOUT = 30.0  # seconds
SHOWN = 5


def notify(command: str, form: str, results: Results) -> str | None:
    """Run the command with the message on standard input; returns what went wrong in words, else None.

    ``command`` is split as a shell would, but run without one. ``form`` is json, slack, wecom or dingtalk.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"the command cannot be read: {error}"
    if not words:
        return "the command is empty"
    try:
        done = subprocess.run(
            words, input=json.dumps(message(form, results)).encode(), capture_output=True, timeout=TIMEOUT, check=False
        )
    except OSError as error:
        return f"{words[0]}: {error.strerror or error}"
    except subprocess.TimeoutExpired:
        return f"{words[0]} did not end within {TIMEOUT:g} s"
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return f"{words[0]} ended with {done.returncode}" + (f": {said[-1][:200]}" if said else "")
    return None


def message(form: str, results: Results) -> dict[str, Any]:
    """The message: facts for ``json``, text in the shape that each service's webhook takes for the others."""
    text = as_text(results)
    if form == "slack":
        return {"text": text}
    if form == "wecom":
        return {"msgtype": "text", "text": {"content": text}}
    if form == "dingtalk":
        return {"msgtype": "text", "text": {"content": text}, "at": {"isAtAll": False}}
    return {
        "run": results.run.get("id"),
        "started": results.run.get("started"),
        "platform": results.stack.get("platform"),
        "hardware": (results.stack.get("hardware") or {}).get("name"),
        "verdict": results.verdict,
        "exit_code": results.exit_code,
        "verdicts": results.counts,
        "changed": dict(results.changed),
        "worst": [
            {"key": c.key, "verdict": c.verdict, "code": c.code, "reason": c.reason} for c in results.bad()[:SHOWN]
        ],
    }


def as_text(results: Results) -> str:
    """The run in a few lines."""
    name = (results.stack.get("hardware") or {}).get("name") or "unknown hardware"
    lines = [f"{results.verdict} on {name} (exit code {results.exit_code}): {answer(results)[1]}"]
    lines += [f"{part}: {old} → {new}" for part, (old, new) in list(results.changed.items())[:SHOWN]]
    bad = results.bad()
    lines += [f"{case.verdict} {case.key}: {case.reason[:200]}" for case in bad[:SHOWN]]
    if len(bad) > SHOWN:
        lines.append(f"and {len(bad) - SHOWN} more")
    return "\n".join(lines)
