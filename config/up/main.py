"""The verb `up`: sets up and runs everything on the embedded default, until it is stopped."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from common.exits import EXIT_PASS, ToolError
from config.up import keys
from config.up.account import database_account
from config.up.datadir import DataFolder, claimed, default_path, open_folder
from config.up.home import settle
from config.up.ports import require_port
from config.up.prepared import is_prepared, note_prepared, prepared_state
from config.up.processes import Supervisor, rotate
from config.up.product import ROOT, Product
from config.up.runfile import clear_last_run, write_run
from config.up.simulation import (
    choose_base_port,
    drill_environment,
    drill_service,
    take_first_line,
)
from config.up.sockets import drop_socket_folder, make_socket_folder
from config.up.store import Store, make_store

SUMMARY = "set up and run everything, drill included"
HIGHEST_PORT = 65535
DRILL_WITHIN_S = 30.0


class StopRequested(BaseException):
    """Somebody asked `up` to end; not an error, so nothing that handles errors may catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the command line asked for."""

    port: int
    data_dir: Path
    has_drill: bool


def main(argv: list[str]) -> int:
    """Run everything until SIGTERM or Ctrl-C. Raises ToolError; a wrong option SystemExit(2)."""
    wish = _parse(argv)
    for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(stop, _request_stop)
    try:
        _run(wish)
    except StopRequested:
        _say("stopped")
    except OSError as exc:
        where = f" ({exc.filename})" if exc.filename else ""
        raise ToolError(f"up failed: {exc.strerror or exc}{where}") from exc
    return EXIT_PASS


def _run(wish: Wish) -> None:
    require_port(wish.port)
    folder = open_folder(wish.data_dir)
    with contextlib.ExitStack() as stack:
        stack.enter_context(claimed(folder.path))
        clear_last_run(folder)
        rotate(folder.logs)
        account = database_account(os.environ)
        sockets = make_socket_folder(os.environ, account)
        stack.callback(drop_socket_folder, sockets)
        stack.callback(folder.run_file.unlink, missing_ok=True)
        home = settle(folder, account)
        if home.is_outside(folder):
            # Two data folders may lead to one database, by a copied pointer.
            stack.enter_context(claimed(home.path))
        keys.make_keys(folder)
        store = make_store(folder, home, account=account, sockets=sockets)
        supervisor = Supervisor(root=ROOT, say=_say)
        stack.callback(supervisor.stop)
        # The last callback is the first to run: no second signal may break the stopping.
        stack.callback(_ignore_stops)
        _Start(wish=wish, folder=folder, store=store, supervisor=supervisor).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One start of all parts, in their order."""

    wish: Wish
    folder: DataFolder
    store: Store
    supervisor: Supervisor

    def run(self) -> NoReturn:
        """Start all parts, tell that they answer, and keep them running."""
        product = Product(
            folder=self.folder,
            port=self.wish.port,
            env=self._env(),
            owner_env={"PAGEWARDEN_MIGRATING": "1"},
        )
        self.supervisor.on_change = lambda: self._record(product.url)
        self._start_parts()
        product.collect_static(self.supervisor)
        self._wait_store()
        if self.wish.has_drill:
            self._wait_drill()
            product = replace(product, env={**product.env, **drill_environment(self.folder)})
        self._prepare(product)
        _say("starting the web process and the worker")
        product.start(self.supervisor)
        product.wait_healthy(self.supervisor)
        if self.folder.sign_ins.exists():
            _say(f"the first sign-ins stand in {self.folder.sign_ins}")
        print(f"ready: {product.url}", flush=True)
        self.supervisor.watch()

    def _prepare(self, product: Product) -> None:
        """Bring schema and first accounts up to date, unless nothing has changed since."""
        owner_url = product.env.get("MIGRATION_DATABASE_URL") or product.env["DATABASE_URL"]
        state = prepared_state(ROOT, self.folder, owner_url=owner_url)
        if is_prepared(self.folder, state):
            return
        _say("bringing schema and first accounts up to date")
        product.migrate(self.supervisor)
        product.bootstrap(self.supervisor)
        state = prepared_state(ROOT, self.folder, owner_url=owner_url)
        note_prepared(self.folder, state)

    def _start_parts(self) -> None:
        """Start what does not wait for anything, side by side."""
        _say("starting database, broker and drill")
        if not os.environ.get("BROKER_URL"):
            self.store.start_valkey(self.supervisor)
        if self.wish.has_drill:
            base_port = choose_base_port(self.folder)
            env = _python_env(os.environ)
            self.supervisor.start(drill_service(self.folder, base_port=base_port, env=env))
        if not os.environ.get("DATABASE_URL"):
            self.store.start_postgres(self.supervisor)

    def _wait_store(self) -> None:
        if not os.environ.get("DATABASE_URL"):
            self.store.wait_postgres(self.supervisor)
        if not os.environ.get("BROKER_URL"):
            self.store.wait_valkey(self.supervisor)

    def _wait_drill(self) -> None:
        self.supervisor.wait_ready(
            "drill", lambda: take_first_line(self.folder), within_s=DRILL_WITHIN_S
        )

    def _env(self) -> dict[str, str]:
        """Answer the environment of the product's processes; it holds passwords."""
        env = _python_env(os.environ)
        if not env.get("DATABASE_URL"):
            env["DATABASE_URL"] = self.store.app_url()
            env["MIGRATION_DATABASE_URL"] = self.store.owner_url()
        if not env.get("BROKER_URL"):
            env["BROKER_URL"] = self.store.broker_url()
        env["PAGEWARDEN_DATA"] = str(self.folder.path)
        env["PAGEWARDEN_SECRET_KEY_FILE"] = str(keys.key_path(self.folder, keys.SECRET_KEY))
        env["PAGEWARDEN_SEALING_KEY_FILE"] = str(keys.key_path(self.folder, keys.SEALING_KEY))
        env["PAGEWARDEN_PROOF_KEY_FILE"] = str(keys.key_path(self.folder, keys.PROOF_KEY))
        env["PAGEWARDEN_PORT"] = str(self.wish.port)
        return env

    def _record(self, url: str) -> None:
        pids = self.supervisor.pids()
        sockets = self.store.postgres.sockets
        own = {"postgres": sockets, "valkey": self.store.valkey.socket}
        parts = {name: str(place) for name, place in own.items() if name in pids}
        write_run(self.folder, url=url, sockets=sockets, parts=parts, pids=pids)


def _python_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Answer our environment for a Python child, wherever we were called from."""
    fixed = {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1", "TZ": "UTC"}
    return {**environ, **fixed, "DJANGO_SETTINGS_MODULE": "config.settings"}


def _parse(argv: list[str]) -> Wish:
    parser = argparse.ArgumentParser(prog="pagewarden up", description=SUMMARY)
    parser.add_argument("--port", type=_port, default=8000, help="of the web pages, on loopback")
    parser.add_argument("--data-dir", type=Path, help="everything that is kept stands here")
    parser.add_argument("--no-drill", action="store_true", help="without the simulated cluster")
    wished = parser.parse_args(argv)
    data_dir = wished.data_dir.expanduser().absolute() if wished.data_dir else None
    return Wish(
        port=wished.port,
        data_dir=data_dir or default_path(os.environ),
        has_drill=not wished.no_drill,
    )


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"a port is 1 to {HIGHEST_PORT}")
    return port


def _request_stop(_number: int, _frame: FrameType | None) -> NoReturn:
    _ignore_stops()
    raise StopRequested


def _ignore_stops() -> None:
    for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)


def _say(line: str) -> None:
    print(f"pagewarden: {line}", file=sys.stderr, flush=True)
