# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""
What kubelet does for device plugins: a stub of it. It has no part of our description of the API: messages are
read and written here by their numbers.
"""
import concurrent.futures
import pathlib

import grpc

STREAM_ENDS = grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE


def fields(message):
    """{number: [value]} of a protobuf message whose values are strings, messages or small numbers."""
    found = {}
    while message:
        tag, message = varint(message)
        value, message = varint(message)
        if tag & 7 == 2:  # it has a length
            value, message = message[:value], message[value:]
        else:
            assert tag & 7 == 0, tag
        found.setdefault(tag >> 3, []).append(value)
    return found


def varint(data):
    value = shift = 0
    for at, byte in enumerate(data):
        value |= (byte & 0x7f) << shift
        shift += 7
        if not byte & 0x80:
            return value, data[at + 1:]
    raise ValueError("a number without an end")


def field(number, value):
    """A string or a message, of less than 128 bytes."""
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


class Kubelet:
    """It serves kubelet.sock in a directory, and connects to the plugin that registers there."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.registrations = []  # {number: [value]}
        self.lists = []  # of each ListAndWatchResponse {device: health}
        self.problem = None

    def start(self):
        """As kubelet starts: what was in the directory goes."""
        for file in self.directory.iterdir():
            file.unlink()
        self.registrations, self.lists = [], []
        self.watchers = concurrent.futures.ThreadPoolExecutor()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=4))
        register = grpc.unary_unary_rpc_method_handler(self.register)  # bytes
        self.server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register}),))
        assert self.server.add_insecure_port(f"unix:{self.directory}/kubelet.sock")
        self.server.start()
        self.channel = None

    def register(self, request, context):
        request = fields(request)
        self.registrations.append(request)
        endpoint = self.directory / request[2][0].decode()
        if self.channel:
            self.channel.close()
        self.channel = grpc.insecure_channel(f"unix:{endpoint}")
        options = self.call("GetDevicePluginOptions")(b"", timeout=10)
        assert not fields(options)  # no call is needed before a container starts, none to choose devices
        self.watchers.submit(self.watch, self.channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b""))
        return b""

    def watch(self, stream):
        try:
            for answer in stream:
                devices = [fields(device) for device in fields(answer)[1]]
                self.lists.append({device[1][0].decode(): device[2][0].decode() for device in devices})
        except grpc.RpcError as error:
            if error.code() not in STREAM_ENDS:
                self.problem = error
        except Exception as error:  # for the test, which is another thread
            self.problem = error

    def call(self, name):
        return self.channel.unary_unary(f"/v1beta1.DevicePlugin/{name}")

    def allocate(self, *containers):
        """For each container, which is a list of devices, {number: [value]} of what it gets."""
        request = b"".join(field(1, b"".join(field(1, device.encode()) for device in devices))
                           for devices in containers)
        return [fields(answer) for answer in fields(self.call("Allocate")(request, timeout=10)).get(1, [])]

    def health(self):
        """Of all devices, if there is one word for it."""
        assert not self.problem, self.problem
        words = set(self.lists[-1].values()) if self.lists else set()
        return words.pop() if len(words) == 1 else None

    def stop(self):
        if self.channel:
            self.channel.close()
        self.server.stop(0).wait()
        self.watchers.shutdown()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        self.stop()
