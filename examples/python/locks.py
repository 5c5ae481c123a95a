#!/usr/bin/env python3
"""Locks in a program on asyncio, through the C ABI alone: locks.py [NODES]. Without NODES it uses REDLOCK_NODES.

The library's own thread talks to the nodes. Its descriptor is readable when callbacks are due, and redlock_dispatch() runs
them on the event loop's thread: that is all that an event loop of any language has to do. REDLOCK_LIBRARY names the
shared library, if it is not installed.
"""
import asyncio
import ctypes
import os
import sys

lib = ctypes.CDLL(os.environ.get("REDLOCK_LIBRARY", "libredlock.so.1"))
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
LOCK_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
lib.redlock_result_text.restype = lib.redlock_status_name.restype = lib.redlock_lock_token.restype = ctypes.c_char_p
lib.redlock_validity_ms.restype = ctypes.c_int64


class AcquireOptions(ctypes.Structure):
    """The first fields of redlock_acquire_options: the library sees by struct_size that the others have their defaults."""

    _fields_ = [("struct_size", ctypes.c_size_t), ("wait_ms", ctypes.c_int64), ("ttl_ms", ctypes.c_uint32)]


class Error(Exception):
    """A status other than REDLOCK_OK, with the library's text."""


class Client:
    """Each operation is a future, which the library's callback ends. Its number is the callback's argument."""

    def __init__(self, nodes):
        self.client, self.futures, self.number = ctypes.c_void_p(), {}, 0
        result = ctypes.create_string_buffer(1 << 16)  # larger than a redlock_result
        if lib.redlock_connect(nodes.encode(), None, ctypes.byref(self.client), result) != 0:
            raise Error(lib.redlock_result_text(result).decode())
        self.on_result = CALLBACK(lambda client, result, number: self.end(number, result, None))
        self.on_lock = LOCK_CALLBACK(lambda client, lock, result, number: self.end(number, result, lock))
        self.descriptor = lib.redlock_descriptor(self.client)
        asyncio.get_running_loop().add_reader(self.descriptor, lib.redlock_dispatch, ctypes.c_void_p(self.client.value))

    def end(self, number, result, value):
        status = ctypes.cast(result, ctypes.POINTER(ctypes.c_int32))[0]  # the first field of redlock_result
        future = self.futures.pop(number)
        if status == 0:
            future.set_result(value)
        else:
            future.set_exception(Error(lib.redlock_result_text(ctypes.c_void_p(result)).decode()))

    def start(self, function, *arguments):
        self.number += 1
        future = self.futures[self.number] = asyncio.get_running_loop().create_future()
        status = function(*arguments, ctypes.c_void_p(self.number))
        if status != 0:  # it was not started, and there will be no callback
            self.futures.pop(self.number)
            raise Error(lib.redlock_status_name(status).decode())
        return future

    async def acquire(self, resource, wait_ms=0, ttl_ms=0):
        options = AcquireOptions()
        lib.redlock_acquire_options_init(ctypes.byref(options), ctypes.c_size_t(ctypes.sizeof(options)))
        options.wait_ms, options.ttl_ms = wait_ms, ttl_ms
        return ctypes.c_void_p(await self.start(lib.redlock_acquire_async, self.client, resource.encode(),
                                                ctypes.byref(options), self.on_lock))

    async def release(self, lock):
        await self.start(lib.redlock_release_async, ctypes.byref(lock), None, self.on_result)

    async def close(self):
        await self.start(lib.redlock_close_async, ctypes.byref(self.client), None, self.on_result)
        asyncio.get_running_loop().remove_reader(self.descriptor)


async def work(client, name, inside):
    lock = await client.acquire("examples/python", wait_ms=30000)
    assert not inside, "two tasks hold the lock"
    inside.append(name)
    left_s = lib.redlock_validity_ms(lock) / 1000
    print(f"{name} holds it for {left_s:.0f} s, with token {lib.redlock_lock_token(lock).decode()}")
    await asyncio.sleep(0.1)
    inside.remove(name)
    await client.release(lock)


async def main(nodes):
    client = Client(nodes)
    try:
        lock = await client.acquire("examples/python")
        try:
            await client.acquire("examples/python", wait_ms=300)
        except Error as error:
            print(f"refused: {error}")
        await client.release(lock)
        inside = []
        await asyncio.gather(*(work(client, f"worker {number}", inside) for number in (1, 2, 3)))
    finally:
        await client.close()
    print("closed")


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("REDLOCK_NODES", "")))
    except Error as failure:
        sys.exit(f"redlock: {failure}")
