"""How many BPF programs are on an interface's egress by TCX; nothing, and status 1, where the kernel has no TCX.

  egress_programs.py INTERFACE
"""
import ctypes
import os
import socket
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_PROG_QUERY, BPF_TCX_EGRESS = 16, 47
ROOM = 64


def main():
    libc = ctypes.CDLL(None)
    ids = (ctypes.c_uint32 * ROOM)()
    query = ctypes.create_string_buffer(64)
    interface = socket.if_nametoindex(sys.argv[1])
    struct.pack_into("=4IQI", query, 0, interface, BPF_TCX_EGRESS, 0, 0, ctypes.addressof(ids), ROOM)
    if libc.syscall(SYS_BPF[os.uname().machine], BPF_PROG_QUERY, query, len(query)) != 0:
        return 1
    print(struct.unpack_from("=I", query, 24)[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
