"""Entry point of `python -m loadgen`; an interruption prints one line, whenever it occurs."""

import sys


def main() -> None:
    """Run the command line."""
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
