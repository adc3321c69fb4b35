"""Entry point of `python -m loadgen`; an interruption (Ctrl-C) prints one line instead of a
traceback.
"""

import sys


def main() -> None:
    """Run the `loadgen` command line; on Ctrl-C, print one line and exit with 130."""
    try:
        from loadgen import cli  # noqa: PLC0415  what it imports takes a moment

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("loadgen: error: interrupted\n")
        sys.exit(130)
    finally:
        import signal  # noqa: PLC0415  it, too, takes a moment

        # A signal during the interpreter's exit must not print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
