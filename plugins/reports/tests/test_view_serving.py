"""`bench view` as a server and as a folder: who gets what, and what nobody gets."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from threading import Thread
from urllib.parse import urlsplit

import pytest
from bench_small.runs import cell, number, run_of
from bench_small.viewed import FIRST, put, two_runs, unpacked
from click.testing import CliRunner

from bench_core.commands.main import bench
from bench_core.errors import SuiteError
from bench_reports.commands import view
from bench_reports.view.catalog import Catalog
from bench_reports.view.finding import MARK
from bench_reports.view.serving import Server
from bench_reports.view.writing import write


@pytest.fixture
def server(tmp_path):
    """Return a server of a folder with two runs and a report, in which there is more than it may send."""
    two_runs(tmp_path / "root")
    report = tmp_path / "root" / "reports" / "words"
    (report / "notes").mkdir()
    (report / "notes" / "mine.md").write_text("private")
    (report / "draft.exe").write_text("private")
    (tmp_path / "secret.csv").write_text("private")
    (report / "tables" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (report / "figures").symlink_to(tmp_path)
    (report / "tables" / "a b.csv").write_text("a,b")
    with Server(Catalog(tmp_path / "root")) as found:
        thread = Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(server, path, method="GET", whole=False):
    """Return the answer to a request; its path stands behind the secret unless it is the `whole` path."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=300)
    connection.putrequest(method, path if whole else f"/{server.secret}/{path}", skip_accept_encoding=True)
    connection.endheaders()
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_the_page_is_sent_to_who_knows_its_address(server):
    assert urlsplit(server.address).hostname == "127.0.0.1"
    assert server.server_address[0] == "127.0.0.1"
    answer, content = ask(server, "")
    assert (answer.status, answer.getheader("Content-Type")) == (200, "text/html; charset=utf-8")
    assert content.decode() == server.catalog.page()
    assert answer.getheader("Cache-Control") == "no-store"


@pytest.mark.parametrize("path", ["/", "/index.html", "//", "/files/reports/words/report.html", "/x/", "/?"])
def test_nothing_is_sent_to_who_does_not(server, path):
    ask(server, "")
    answer, content = ask(server, path, whole=True)
    assert answer.status == 404
    assert b"words" not in content.replace(path.encode(), b"")


def test_two_servers_have_other_addresses(tmp_path):
    catalog = Catalog(tmp_path)
    with Server(catalog) as one, Server(catalog) as other:
        assert one.secret != other.secret
        assert len(one.secret) >= 16


def test_the_files_of_a_report_are_sent_as_what_they_are(server, tmp_path):
    ask(server, "")
    kinds = {"report.html": "text/html; charset=utf-8", "report.md": "text/plain; charset=utf-8",
             "tables/t.csv": "text/csv; charset=utf-8", "results.json": "application/json",
             "tables/a%20b.csv": "text/csv; charset=utf-8"}  # fmt: skip
    for name, kind in kinds.items():
        answer, content = ask(server, f"files/reports/words/{name}")
        assert (answer.status, answer.getheader("Content-Type")) == (200, kind)
        assert content == (tmp_path / "root/reports/words" / name.replace("%20", " ")).read_bytes()
        assert answer.getheader("X-Content-Type-Options") == "nosniff"


def test_a_report_from_anybody_is_kept_away_from_the_page(server):
    ask(server, "")
    answer, _ = ask(server, "files/reports/words/report.html")
    policy = answer.getheader("Content-Security-Policy")
    assert policy.startswith("sandbox ")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize(
    "path",
    [
        "files/", "files", "files/reports/", "files/reports/words", "files/reports/words/",
        "files/reports/words/notes/mine.md", "files/reports/words/draft.exe", "files/reports/words/tables/link.csv",
        "files/reports/words/figures/secret.csv", f"files/runs/{FIRST}/cells.jsonl", f"runs/{FIRST}/run.json",
        "files/../secret.csv", "files/%2e%2e/%2e%2e/secret.csv", "files/reports/words/..%2f..%2f..%2fsecret.csv",
        "files/reports/words/tables/../report.html", "files//etc/passwd", "files/%00", "files/reports/words/report.html%00",
        "../", "%2e%2e/", "files/reports/words/report.html/", "files/reports\\words\\report.html",
    ],
)  # fmt: skip
def test_nothing_is_sent_that_the_page_does_not_link_to(server, path):
    assert ask(server, "")[0].status == 200
    answer, content = ask(server, path)
    assert answer.status == 404
    assert b"private" not in content


def test_a_file_that_became_a_link_is_not_sent(server, tmp_path):
    ask(server, "")
    table = tmp_path / "root/reports/words/tables/t.csv"
    table.unlink()
    table.symlink_to(tmp_path / "secret.csv")
    assert ask(server, "files/reports/words/tables/t.csv")[0].status == 404
    folder = tmp_path / "root/reports/words"
    folder.rename(tmp_path / "root/reports/moved")
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "report.html").write_text("private")
    folder.symlink_to(tmp_path / "words")
    assert ask(server, "files/reports/words/report.html")[0].status == 404


def test_the_page_is_up_to_date_whenever_it_is_loaded(server, tmp_path):
    assert len(unpacked(ask(server, "")[1].decode())[0]) == 2
    put(tmp_path / "root", "later", run_of(tmp_path, [cell("rnn", "greedy", 0, {"rate": number(1.0)})], {}), "later")
    assert len(unpacked(ask(server, "")[1].decode())[0]) == 3
    assert ask(server, "files/reports/later/report.html")[0].status == 200


def test_a_folder_that_was_emptied_is_said_to_be_empty(server, tmp_path):
    (tmp_path / "root").rename(tmp_path / "away")
    (tmp_path / "root").mkdir()
    answer, content = ask(server, "")
    assert answer.status == 404
    assert b"no runs or reports found" in content


def test_only_reading_is_answered(server):
    answer, content = ask(server, "", "HEAD")
    assert (answer.status, content) == (200, b"")
    assert int(answer.getheader("Content-Length")) > 1_000
    assert [ask(server, "", method)[0].status for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [501] * 4


def test_what_is_no_http_harms_nobody(server):
    with socket.create_connection(server.server_address[:2], timeout=300) as line:
        line.sendall(b"\x16\x03\x01\xff\xff\r\n\r\n")
        line.recv(1_000)
    assert ask(server, "")[0].status == 200


def test_a_port_that_is_taken_is_told(tmp_path):
    with Server(Catalog(tmp_path)) as server:
        port = server.server_address[1]
        with pytest.raises(SuiteError, match=f"port {port} cannot be used: .*Choose another --port"):
            Server(Catalog(tmp_path), port)


def test_a_written_page_lies_beside_the_files_that_it_links_to(tmp_path):
    two_runs(tmp_path / "root")
    catalog = Catalog(tmp_path / "root")
    page = write(catalog, tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert text == catalog.page()
    links = set(re.findall(r'href="(files/[^"]+)"', text))
    assert "files/reports/words/report.html" in links
    for link in links:
        assert (tmp_path / "out" / link).read_bytes() == (
            tmp_path / "root" / link.removeprefix("files/")
        ).read_bytes()


def test_a_page_is_written_anew_and_what_is_gone_goes(tmp_path):
    two_runs(tmp_path / "root")
    out = tmp_path / "root" / "site"
    write(Catalog(tmp_path / "root"), out)
    assert len(unpacked((out / "index.html").read_text())[0]) == 2
    (tmp_path / "root/reports/words/report.md").unlink()
    write(Catalog(tmp_path / "root"), out)
    assert not (out / "files/reports/words/report.md").exists()
    assert (out / "files/reports/words/report.html").exists()
    assert len(unpacked((out / "index.html").read_text())[0]) == 2


@pytest.mark.parametrize("what", ["folder", "file", "the viewed folder"])
def test_nothing_else_is_written_over(tmp_path, what):
    two_runs(tmp_path / "root")
    out = {"folder": tmp_path / "paper", "file": tmp_path / "file", "the viewed folder": tmp_path / "root"}[what]
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "index.html").write_text("mine")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SuiteError, match="already has other content"):
        write(Catalog(tmp_path / "root"), out)
    assert (tmp_path / "paper" / "index.html").read_text() == "mine"
    assert not (tmp_path / "root" / MARK).exists()


def test_links_in_a_folder_that_was_written_lead_nothing_out_of_it(tmp_path):
    two_runs(tmp_path / "root")
    (tmp_path / "out").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "text").write_text("mine")
    (tmp_path / "out" / MARK).touch()
    (tmp_path / "out" / "files").symlink_to(tmp_path / "mine")
    (tmp_path / "out" / "index.html").symlink_to(tmp_path / "mine" / "text")
    write(Catalog(tmp_path / "root"), tmp_path / "out")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["text"]
    assert (tmp_path / "mine" / "text").read_text() == "mine"


def test_an_empty_folder_is_nothing_to_write_about(tmp_path):
    (tmp_path / "root").mkdir()
    with pytest.raises(SuiteError, match="no runs or reports found"):
        write(Catalog(tmp_path / "root"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def call(*words):
    return CliRunner().invoke(bench, ["view", *map(str, words)], standalone_mode=False)


def test_the_command_writes_a_page_and_prints_where(tmp_path):
    two_runs(tmp_path / "root")
    found = call(tmp_path / "root", "--out", tmp_path / "out")
    assert found.exception is None
    assert found.stdout.strip() == str(tmp_path / "out" / "index.html")


def test_the_command_names_what_is_no_folder_of_runs(tmp_path):
    assert "is not a folder" in str(call(tmp_path / "none").exception)
    assert "no runs or reports found" in str(call(tmp_path).exception)
    assert "no runs or reports found" in str(call(tmp_path, "--no-open").exception)


@pytest.mark.parametrize(
    ("places", "there"), [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "w"}, True)]
)
def test_a_browser_is_opened_where_there_is_a_screen(monkeypatch, places, there):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    assert view._has_screen() == there
    monkeypatch.setattr(sys, "platform", "darwin")
    assert view._has_screen()


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    first, _ = two_runs(tmp_path)
    (first.folder / "run.json").write_text("[")
    command = [sys.executable, "-m", "bench_core", "view", str(tmp_path), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "2 runs (1 cannot be read) at" in process.stdout.readline()
        address = urlsplit(process.stdout.readline().strip())
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=300)
        connection.request("GET", address.path)
        page = connection.getresponse().read().decode()
        connection.close()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=300)
    assert len(unpacked(page)[0]) == 2
    assert (process.returncode, errors) == (0, "")
    assert os.sep not in out.replace("Ctrl-C", "")
