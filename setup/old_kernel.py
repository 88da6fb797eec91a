"""Runs a program as on Linux 3.10: old_kernel.py PROGRAM [ARGUMENT...].

A seccomp filter answers ENOSYS to every system call that came later. 3.10 is the kernel of the oldest hosts that MongoDB 4.4 and
later run on (RHEL 7); its last call on x86-64 is finit_module, number 313 (syscalls(2)). What comes later and has a fallback in Fathom:
getrandom (3.17; /dev/urandom), memfd_create and execveat (not used), statx (4.11; stat), copy_file_range (4.5; read and write),
preadv2 and pwritev2 (4.6; no polling), io_uring_setup (5.1; libaio, then threads), pidfd_open and clone3 (5.3; waitpid and clone),
openat2 (5.6; openat), close_range (5.9; close), futex_waitv (5.16; not used).
"""

import ctypes
import os
import struct
import sys

FIRST_LATER = 314
ENOSYS = 38
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_NUMBER, JUMP_IF_GE, RETURN = 0x20, 0x35, 0x06
ERRNO, ALLOW = 0x00050000, 0x7FFF0000


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


steps = [
    (LOAD_NUMBER, 0, 0, 0),
    (JUMP_IF_GE, 0, 1, FIRST_LATER),
    (RETURN, 0, 0, ERRNO | ENOSYS),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = Program(len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
):
    sys.exit(f"old_kernel.py: {os.strerror(ctypes.get_errno())}")
os.execv(sys.argv[1], sys.argv[1:])
