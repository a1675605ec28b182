"""Keeps what a script computes in its README: the lines between two marks, and sentences that have to be there."""

import pathlib
import sys
from collections.abc import Callable

BEGIN = "<!-- Made by a script of this folder; its `--check` compares. -->"
END = "<!-- Until here. -->"


def words(text: str) -> str:
    """The text with the breaks of lines of prose and of Rust's strings taken out."""
    return " ".join(text.replace("\\\n", "\n").split())


def parts(readme: pathlib.Path) -> tuple[str, str, str]:
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    made, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{readme}: {BEGIN} and {END} are not there")
    return before, made, after


def write(readme: pathlib.Path, made: str) -> None:
    before, _, after = parts(readme)
    readme.write_text(f"{before}{BEGIN}\n\n{made}\n{END}{after}")


def check(readme: pathlib.Path, made: str, sentences: dict[pathlib.Path, list[str]]) -> None:
    """Ends with an error if the README does not have these lines, or a file not these sentences."""
    wrong = []
    if parts(readme)[1].strip() != made.strip():
        wrong.append(f"{readme}: the tables are not what the results say; see what the script says of itself")
    for path, expected in sentences.items():
        text = words(path.read_text())
        wrong += [f"{path}: the results say: {sentence}" for sentence in expected if sentence not in text]
    if wrong:
        sys.exit("\n".join(wrong))


def row(cells: list) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def table(head: list[str], rows: list[list]) -> str:
    return "\n".join([row(head), "|" + "---|" * len(head), *(row(cells) for cells in rows)]) + "\n"


def main(readme: pathlib.Path, usage: str, simulate: Callable, tables: Callable, sentences: Callable = dict) -> None:
    """The command of a script that simulates, writes the README of what is kept (`--from`), or compares it (`--check`)."""
    word = sys.argv[1] if sys.argv[1:] else ""
    if word not in ("", "--from", "--check"):
        sys.exit(usage)
    if not word:
        simulate()
    if word == "--check":
        check(readme, tables(), sentences())
    else:
        write(readme, tables())
