#!/usr/bin/env python3
"""Runs Home Assistant's own recorder for an hour of virtual time on plain SQLite and through the VFS, and compares the two.

Nothing of Home Assistant is changed or imitated: its `Recorder` thread, its schema, its managers of states, attributes and
events, its statistics of sensors, its purge with VACUUM, its queries of history and statistics. What stands for the rest of
the program are events that are put into the recorder's queue with times of their own, a commit every 5 seconds as its timer
makes them, and statistics every five minutes. The database's URL is the only difference:

    db_url: sqlite:///file:/config/home-assistant_v2.db?vfs=ebbpool&window=30&uri=true

The script installs Home Assistant of a fixed version, and what its recorder imports, into a virtual environment in DIRECTORY,
and leaves out what only other parts of Home Assistant import (Bluetooth, the cloud). Run it as root:

    cargo build --release -p ebbpool-sqlite
    sudo apt install python3-venv
    sudo /usr/bin/python3 sqlite/rivals/home_assistant.py DIRECTORY [--minutes 60] [--write docs/sqlite.md]

It ends with an error if the content of a database or the answer of a query differs from those of plain SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from card import Card, checked, fresh_card, load_library, open_database, run, temporary_files_in
from workloads import context_id
from documents import table, write_block

#: The last version for Python 3.11, with what its recorder imports in the versions that it asks for.
HOME_ASSISTANT = "homeassistant==2024.3.3"
IMPORTED = """
    SQLAlchemy==2.0.27 fnv-hash-fast==0.5.0 psutil-home-assistant==0.0.1 aiohttp==3.9.3 aiohttp-cors==0.7.0
    aiohttp-fast-url-dispatcher==0.3.0 aiohttp-zlib-ng==0.3.1 astral==2.2 async-interrupt==1.1.1 attrs==23.2.0
    atomicwrites-homeassistant==1.4.1 awesomeversion==24.2.0 bcrypt==4.1.2 certifi>=2021.5.30 ciso8601==2.3.1 httpx==0.27.0
    ifaddr==0.2.0 Jinja2==3.1.3 lru-dict==1.3.0 PyJWT==2.8.0 cryptography==42.0.5 pyOpenSSL==24.0.0 orjson==3.9.15
    packaging>=23.1 python-slugify==8.0.4 PyYAML==6.0.1 requests==2.31.0 typing-extensions>=4.10.0,<5.0
    ulid-transform==0.9.0 urllib3>=1.26.5,<2 voluptuous==0.13.1 voluptuous-serialize==2.6.0 yarl==1.9.4
""".split()

#: Name, and the library's options or `None` for plain SQLite.
RUNS = [("plain SQLite", None), ("window=0", "window=0"), ("window=30", "window=30"), ("window=30&log=wal", "window=30&log=wal")]

#: Columns with times of the machine's clock, which no two runs share.
CLOCK = {"created", "created_ts", "changed", "start", "end", "closed_incorrect"}
BEGIN = datetime(2024, 3, 1, tzinfo=timezone.utc)
ENTITIES = 300
#: A second.
STATES = 10
#: Seconds of virtual time between two commits of the recorder, and between two writes of the page cache.
COMMIT, WRITEBACK = 5, 30


def rounded(number: str | float) -> float:
    """Means of sensors have other last digits in each run, also on plain SQLite."""
    return round(float(number), 6)


def environment(directory: Path) -> Path:
    """The Python of a virtual environment with Home Assistant, made at the first call."""
    python = directory / "environment/bin/python"
    done = directory / "environment/done"
    if not done.exists():
        print(f"installing {HOME_ASSISTANT}", flush=True)
        run(sys.executable, "-m", "venv", python.parent.parent)
        run(python, "-m", "pip", "install", "--quiet", "--no-deps", HOME_ASSISTANT)
        run(python, "-m", "pip", "install", "--quiet", *IMPORTED)
        done.touch()
    return python


# In the virtual environment.


class House:
    """Sensors and what happens to them: the same in every run."""

    def __init__(self) -> None:
        self.dice = random.Random(3)
        self.weights = [rank**-0.8 for rank in range(1, ENTITIES + 1)]
        self.states: dict[str, Any] = {}

    def state(self, entity: int, at: datetime) -> Any:
        from homeassistant.core import Context, State
        from ulid_transform import bytes_to_ulid

        attributes = {
            "state_class": "measurement",
            "unit_of_measurement": "W",
            "device_class": "power",
            "friendly_name": f"Meter {entity} of the house",
        }
        # A quarter of the entities change their attributes with every tenth state.
        if entity % 4 == 0:
            attributes["last_seen"] = f"{self.dice.randrange(10):x}" if self.dice.random() < 0.9 else self.dice.getrandbits(32)
        context = Context(id=bytes_to_ulid(context_id(at.timestamp(), self.dice)))
        value = f"{self.dice.random() * 3000:.2f}"
        return State(f"sensor.meter_{entity:04}", value, attributes, at, at, context)

    def change(self, at: datetime) -> Any:
        """The event that a sensor has another state."""
        from homeassistant.core import Event, EventOrigin

        (entity,) = self.dice.choices(range(ENTITIES), self.weights)
        new = self.state(entity, at)
        data = {"entity_id": new.entity_id, "old_state": self.states.get(new.entity_id), "new_state": new}
        self.states[new.entity_id] = new
        return Event("state_changed", data, EventOrigin.local, at, new.context)

    def call(self, at: datetime) -> Any:
        """The event that a service was called."""
        from homeassistant.core import Context, Event, EventOrigin
        from ulid_transform import bytes_to_ulid

        context = Context(id=bytes_to_ulid(context_id(at.timestamp(), self.dice)))
        data = {"domain": "light", "service": "turn_on", "service_data": {"entity_id": f"light.{self.dice.randrange(40)}"}}
        return Event("call_service", data, EventOrigin.local, at, context)


async def start(url: str, configuration: Path) -> tuple[Any, Any]:
    """Home Assistant with nothing but its recorder and its statistics of sensors."""
    from homeassistant.components.recorder import Recorder
    from homeassistant.components.recorder.const import DATA_INSTANCE, DOMAIN
    from homeassistant.components.sensor import recorder as sensors
    from homeassistant.core import CoreState, HomeAssistant
    from homeassistant.helpers.recorder import async_initialize_recorder

    hass = HomeAssistant(str(configuration))
    hass.set_state(CoreState.running)
    async_initialize_recorder(hass)
    hass.data[DOMAIN].recorder_platforms["sensor"] = sensors
    recorder = Recorder(
        hass=hass,
        auto_purge=False,
        auto_repack=False,
        keep_days=10,
        # The timer of the machine's clock: commits are put into the queue below.
        commit_interval=86400,
        uri=url,
        db_max_retries=1,
        db_retry_wait=0,
        entity_filter=lambda _: True,
        exclude_event_types=set(),
    )
    hass.data[DATA_INSTANCE] = recorder
    recorder.async_register()
    recorder.start()
    if not await recorder.async_db_ready:
        sys.exit("the recorder did not start")
    await recorder.async_recorder_ready.wait()
    # Its timers follow the machine's clock.
    recorder._async_stop_listeners()
    return hass, recorder


async def settled(recorder: Any) -> None:
    """Waits until the recorder's queue is empty: a purge puts its next part into the queue."""
    while True:
        await asyncio.to_thread(recorder.block_till_done)
        if recorder.backlog == 0:
            return


async def ask(hass: Any, recorder: Any, now: datetime) -> list[str]:
    """Digests of the answers to what the pages of Home Assistant ask for."""
    from homeassistant.components.recorder import history, statistics

    ids = [f"sensor.meter_{entity:04}" for entity in (0, 1, 2, 40, 100, 299)]
    hour, half = now - timedelta(hours=1), now - timedelta(minutes=30)
    kinds = {"mean", "min", "max"}
    questions = [
        (history.get_significant_states, (hass, hour, now, ids)),
        (history.get_significant_states, (hass, half, None, ids, None, True, False, True, True, True)),
        (history.state_changes_during_period, (hass, half, now, ids[0])),
        (history.get_last_state_changes, (hass, 20, ids[1])),
        (statistics.statistics_during_period, (hass, hour, now, set(ids), "5minute", None, kinds)),
        (statistics.statistics_during_period, (hass, hour - timedelta(hours=1), None, None, "hour", None, kinds)),
        (statistics.list_statistic_ids, (hass,)),
    ]
    answers = []
    for question, arguments in questions:
        answer = await recorder.async_add_executor_job(question, *arguments)

        def plain(value: Any) -> Any:
            return value.as_dict() if hasattr(value, "as_dict") else str(value)

        exact = json.loads(json.dumps(answer, default=plain), parse_float=rounded)
        text = json.dumps(exact, sort_keys=True)
        answers.append(f"{question.__name__} {len(text)} {hashlib.sha256(text.encode()).hexdigest()}")
    return answers


async def hour(card: Card, path: Path, options: str | None, minutes: int) -> list[str]:
    from homeassistant.components.recorder.core import COMMIT_TASK
    from homeassistant.components.recorder.tasks import PurgeTask, StatisticsTask

    url = f"sqlite:///{path}" if options is None else f"sqlite:///file:{path}?vfs=ebbpool&{options}&uri=true"
    hass, recorder = await start(url, path.parent)
    # It looks for statistics that it has missed, as the machine's clock says: no sensor is there yet.
    await settled(recorder)
    clock = None if options is None else open_database(path, options)
    house, answers = House(), []
    for entity in range(ENTITIES):
        state = house.state(entity, BEGIN)
        hass.states.async_set(state.entity_id, state.state, state.attributes)
    for second in range(0, minutes * 60, COMMIT):
        for index in range(STATES * COMMIT):
            recorder.queue_task(house.change(BEGIN + timedelta(seconds=second + index / STATES)))
        recorder.queue_task(house.call(BEGIN + timedelta(seconds=second + COMMIT - 0.05)))
        recorder.queue_task(COMMIT_TASK)
        now = second + COMMIT
        at = BEGIN + timedelta(seconds=now)
        if now % 300 == 0:
            recorder.queue_task(StatisticsTask(at - timedelta(minutes=5), False))
        if now == minutes * 45:
            recorder.queue_task(PurgeTask(BEGIN + timedelta(minutes=minutes / 6), False, False))
        if now == minutes * 55:
            # With VACUUM, as every second Sunday.
            recorder.queue_task(PurgeTask(BEGIN + timedelta(minutes=minutes / 4), True, False))
        await settled(recorder)
        if clock is not None:
            clock.execute(f"PRAGMA ebbpool_clock={1 + now}")
        if now % 600 == 0:
            answers += await ask(hass, recorder, at)
        if now % WRITEBACK == 0:
            card.flush()
    await recorder._async_shutdown(None)
    if clock is not None:
        clock.close()
    return answers


def work(arguments: dict) -> None:
    """One run, in the virtual environment; prints the answers of the queries."""
    import logging

    problems = logging.StreamHandler(sys.stderr)
    problems.setLevel(logging.ERROR)
    logging.getLogger().addHandler(problems)
    path, options = Path(arguments["path"]), arguments["options"]
    card = Card(arguments["device"], path.parent)
    temporary_files_in(path.parent)
    if options is not None:
        load_library()
        clock = open_database(path, options)
        clock.execute("PRAGMA ebbpool_clock=1")
        clock.close()
    answers = asyncio.run(hour(card, path, options, arguments["minutes"]))
    print(json.dumps(answers))


# Outside of it.


def content(path: Path) -> dict[str, tuple[int, str]]:
    """For each table the number of rows and a digest of them, and the schema."""
    database = open_database(path, None)
    found = {}
    schema = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
    found["schema"] = (len(schema), hashlib.sha256(repr(schema).encode()).hexdigest())
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})") if row[1] not in CLOCK]
        digest, rows = hashlib.sha256(), 0
        for row in database.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY {', '.join(columns)}"):
            digest.update(repr([rounded(value) if isinstance(value, float) else value for value in row]).encode())
            rows += 1
        found[name] = (rows, digest.hexdigest())
    database.close()
    return found


def one(directory: Path, python: Path, options: str | None, minutes: int) -> dict:
    with fresh_card(directory) as card:
        path = card.mount / "home-assistant_v2.db"
        before, begin = card.written(), time.monotonic()
        arguments = {"device": card.device, "path": str(path), "options": options, "minutes": minutes}
        command = [str(python), __file__, str(directory), "--work", json.dumps(arguments)]
        # Sets of names are in the same order in all runs.
        ordered = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, capture_output=True, text=True, env=ordered)
        if done.returncode != 0 or done.stderr.strip():
            sys.exit(f"{options}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
        card.flush()
        after = card.written()
        checked(path)
        return {
            "answers": json.loads(done.stdout),
            "content": content(path),
            "seconds": time.monotonic() - begin,
            **{name: after[name] - before[name] for name in after},
        }


def differences(plain: dict, ours: dict) -> list[str]:
    tables = [name for name in plain["content"] | ours["content"] if plain["content"].get(name) != ours["content"].get(name)]
    questions = [a for a, b in zip(plain["answers"], ours["answers"], strict=True) if a != b]
    return [f"table {name}" for name in tables] + [f"answer of {question}" for question in questions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--minutes", type=int, default=60, help="minutes of virtual time (a multiple of 10)")
    parser.add_argument("--write", type=Path, metavar="FILE.md")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work)
    if os.geteuid() != 0:
        sys.exit("a loop device needs root")
    directory = arguments.directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    python = environment(directory)
    rows, found = [], {}
    for name, options in RUNS:
        found[name] = this = one(directory, python, options, arguments.minutes)
        plain = found[RUNS[0][0]]
        different = differences(plain, this)
        print(f"{name}: {this['bytes'] / 2**20:.1f} MiB, {this['seconds']:.0f} s; differs in: {different}", flush=True)
        if different:
            sys.exit("the recorder's content or an answer differs")
        rows.append([name, f"{this['bytes'] / 2**20:.0f}", f"{plain['bytes'] / this['bytes']:.1f}x", f"{this['flushes']:,}"])
    states = found[RUNS[0][0]]["content"]["states"][0]
    text = (
        f"Home Assistant {HOME_ASSISTANT.split('=')[-1]}'s own recorder over {arguments.minutes} minutes, by "
        "`sudo /usr/bin/python3 sqlite/rivals/home_assistant.py DIRECTORY --write docs/sqlite.md`: an empty database, "
        f"{ENTITIES} sensors, {STATES} states a second, statistics every five minutes, a purge, and a purge with VACUUM that "
        f"leave {states:,} states. The tables' content and {len(plain['answers'])} answers of history and statistics are the same "
        "in all runs.\n\n" + table(["", "MiB", "fewer bytes", "flushes"], rows)
    )
    print(text)
    if arguments.write:
        write_block(arguments.write, "recorder", text)


if __name__ == "__main__":
    main()
