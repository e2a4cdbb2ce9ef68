"""An order of vendors' version strings. The raw string is what is stored and shown; this only says which is newer.

Vendors write what no standard orders: ``8.2.RC1.alpha001``, ``24.1.rc3.7``, ``6.4.43482-0f2d60242``, ``2.0.0.nv23.05``,
``515.65.01-1ubuntu``, ``2.7.1+cu128``. Every string has a place; none is refused.
"""

from __future__ import annotations

import re

Token = tuple[int, int, str]

# alpha < beta < test build < release candidate < release, as CANN orders its packages.
_BEFORE_RELEASE = {"dev": -6, "alpha": -5, "a": -5, "beta": -4, "b": -4, "t": -3, "rc": -2, "c": -2, "pre": -2}
_END: Token = (0, 0, "")
_WORD = 1
_NUMBER = 2
_TOKENS = re.compile(r"\d+|[a-z]+")
_REST = re.compile(r"\+|-(?!(?:alpha|beta|rc|dev)\b|(?:alpha|beta|rc|dev)[.\d])")
_LEADING = re.compile(r"\d+(?:\.\d+)*")


def split(text: str) -> tuple[tuple[int, ...], str]:
    """The leading numbers and the rest as written: ``("418.87.01")`` → ``((418, 87, 1), "")``."""
    match = _LEADING.match(text.strip())
    if match is None:
        return (), text.strip()
    return tuple(int(part) for part in match.group().split(".")), text.strip()[match.end() :]


def key(text: str) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    """A sort key: a higher one is a newer version. Build numbers and local parts (after ``+`` or ``-``) count last."""
    match = _REST.search(text.strip().lower())
    lowered = text.strip().lower()
    main, rest = (lowered[: match.start()], lowered[match.end() :]) if match else (lowered, "")
    numbers, tokens = [], _TOKENS.findall(main)
    while tokens and tokens[0].isdigit():
        numbers.append(int(tokens.pop(0)))
    while len(numbers) > 1 and numbers[-1] == 0:  # 2.1 is 2.1.0
        numbers.pop()
    head = [(_NUMBER, number, "") for number in numbers]
    return (*head, *map(_token, tokens), _END), tuple(map(_token, _TOKENS.findall(rest)))


def _token(word: str) -> Token:
    if word.isdigit():
        return (_NUMBER, int(word), "")
    return (_BEFORE_RELEASE.get(word, _WORD), 0, word if word not in _BEFORE_RELEASE else "")


def compare(one: str, other: str) -> int:
    """-1 where ``one`` is older than ``other``, 1 where newer, 0 where neither is (the strings may still differ)."""
    mine, its = key(one), key(other)
    return (mine > its) - (mine < its)


def at_least(text: str, wanted: str) -> bool:
    """True where ``text`` is ``wanted`` or newer."""
    return compare(text, wanted) >= 0
