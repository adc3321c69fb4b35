"""The start of the command: Ctrl-C is one line from the first moment on, and to the last."""

import sys


def main() -> None:
    """Be `loadgen`."""
    try:
        from loadgen import cli  # noqa: PLC0415  what it imports takes a moment

        cli.main()
    except KeyboardInterrupt:
        sys.stderr.write("loadgen: error: interrupted\n")
        sys.exit(130)
    finally:
        import signal  # noqa: PLC0415  it, too, takes a moment

        # What is left is the interpreter's own end: a signal is not to be told by a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
