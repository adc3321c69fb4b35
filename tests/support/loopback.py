"""Bring up the loopback device of a new network namespace, then run a command in it."""

import fcntl
import os
import socket
import struct
import sys

#: linux/sockios.h, linux/if.h
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40

if __name__ == "__main__":
    with socket.socket() as any_socket:
        flags = struct.pack("16sh", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, flags)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  the arguments are a command line
