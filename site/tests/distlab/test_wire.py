"""The byte counter against transfers whose size is known."""

import socket

import pytest

from distlab import wire

pytestmark = pytest.mark.skipif(not wire.available(), reason="the TCP byte counter is Linux's")


@pytest.fixture
def pair():
    """Return two connected TCP sockets on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def test_it_counts_what_was_sent(pair):
    ours, theirs = pair
    before = wire.sent()
    ours.sendall(b"x" * 12345)
    while len(theirs.recv(20000, socket.MSG_PEEK)) < 12345:
        pass

    assert wire.sent() - before == 12345


def test_what_arrives_is_not_counted(pair):
    ours, theirs = pair
    ours.sendall(b"x" * 100)
    theirs.recv(100)

    assert wire.sent_by(ours.fileno()) == 100
    assert wire.sent_by(theirs.fileno()) == 0


def test_other_descriptors_do_not_disturb_it(tmp_path):
    left, right = socket.socketpair()
    with left, right, (tmp_path / "file").open("w"), socket.socket(type=socket.SOCK_DGRAM):
        assert wire.sent() >= 0


def test_elsewhere_it_says_so(monkeypatch):
    monkeypatch.setattr(wire.sys, "platform", "darwin")

    with pytest.raises(RuntimeError, match="no TCP byte counter on darwin"):
        wire.sent()
