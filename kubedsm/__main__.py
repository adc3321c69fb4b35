"""Entry points of the commands. From the first moment to the last, Ctrl-C prints one line."""

import sys


def main() -> None:
    """Entry point of the console script `kubedsm`."""
    _start("main")


def plugin() -> None:
    """Entry point of the kubectl plugin `kubectl-kubedsm`."""
    _start("plugin")


def complete_plugin() -> None:
    """Entry point of kubectl's completion for the plugin, `kubectl_complete-kubedsm`."""
    _start("complete_plugin")


def _start(entry_point: str) -> None:
    try:
        from kubedsm.cli import main as cli  # noqa: PLC0415  importing it takes a moment

        getattr(cli, entry_point)()
    except KeyboardInterrupt:
        sys.stderr.write("kubedsm: error: interrupted\n")
        sys.exit(130)
    finally:
        import signal  # noqa: PLC0415  importing it takes a moment as well

        # Only the interpreter's own shutdown is left: a signal must not print a traceback there.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
