"""Runs the command line for functions that have its flags as arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from . import _native


def _words(verb: Sequence[str], places: Sequence[Any], flags: dict[str, Any]) -> list[str]:
    """The words of a command."""
    words = list(verb)
    for flag, value in flags.items():
        if value is True:
            words.append(f"--{flag}")
        elif value is not None and value is not False:
            several = value if isinstance(value, (list, tuple)) else [value]
            words += [f"--{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in several]
    return [*words, "--", *(os.fspath(place) for place in places if place is not None)]


def run(verb: Sequence[str], places: Sequence[Any], flags: dict[str, Any], *, is_json: bool) -> Any:
    """Runs a verb in a process of its own, and returns its document, or the text that it prints.

    Remarks on standard error go to that of this process, unless they are all that the verb prints.
    """
    asked = {**flags, "json": "-"} if is_json else flags
    command = [sys.executable, "-m", "ioweir", *_words(verb, places, asked)]
    # Texts are not wrapped to a terminal.
    environment = {**os.environ, "COLUMNS": "10000"}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
    # An expectation that is not met is part of the document.
    if done.returncode == 0 or (done.returncode == 3 and is_json):
        if not is_json and not done.stdout:
            return done.stderr
        sys.stderr.write(done.stderr)
        return json.loads(done.stdout) if is_json else done.stdout
    message = done.stderr.strip().removeprefix("error: ")
    if done.returncode == 2:
        raise _native.InputError(message)
    raise _native.RunError(message or f"ioweir {' '.join(verb)} ended with code {done.returncode}")
