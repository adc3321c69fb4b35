"""The start of the commands: Ctrl-C is one line from the first moment on, and to the last."""

import sys


def main() -> None:
    """Be `kubedsm`."""
    _start("main")


def plugin() -> None:
    """Be `kubectl kubedsm`."""
    _start("plugin")


def complete_plugin() -> None:
    """Be `kubectl_complete-kubedsm`."""
    _start("complete_plugin")


def _start(what: str) -> None:
    try:
        from kubedsm import cli  # noqa: PLC0415  what it imports takes a moment

        getattr(cli, what)()
    except KeyboardInterrupt:
        sys.stderr.write("kubedsm: error: interrupted\n")
        sys.exit(130)
    finally:
        import signal  # noqa: PLC0415  it, too, takes a moment

        # What is left is the interpreter's own end: a signal is not to be told by a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
