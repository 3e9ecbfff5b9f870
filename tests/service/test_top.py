from __future__ import annotations

from collections.abc import Callable

import pytest

from rankcast import cli

from .conftest import Running, make_stocks


def test_a_running_service_is_shown(
    running: Callable[..., Running], capsys: pytest.CaptureFixture[str]
) -> None:
    server = running()
    make_stocks(server.http)
    url = f"http://127.0.0.1:{server.port}"
    assert cli.main(["top", "--url", url, "--once"]) == 0
    told = capsys.readouterr().out
    assert "stocks" in told
    assert "writes/s" in told
    assert cli.main(["top", "--url", f"{url}1", "--once"]) == 2
    assert cli.main(["top", "--url", "file:///etc/passwd", "--once"]) == 2
