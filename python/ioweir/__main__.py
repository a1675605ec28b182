"""The command line: ``python -m ioweir`` is ``ioweir``."""

import signal
import sys

from . import _native


def main() -> int:
    """Runs the command line with the arguments of the process, and returns the exit code."""
    # Python would only note the signal, and the run would go on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["ioweir", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
