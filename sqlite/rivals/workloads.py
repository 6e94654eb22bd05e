"""Workloads: Home Assistant's recorder, TPC-B, and seven loads of other programs. All run in virtual time, and are the same in every
run."""

from __future__ import annotations

import bisect
import itertools
import math
import random
import sqlite3
import string
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

#: The table `states` of Home Assistant with its five indexes, and the tables that are written along with it.
HA_SCHEMA = """
CREATE TABLE states_meta (metadata_id INTEGER PRIMARY KEY, entity_id VARCHAR(255));
CREATE UNIQUE INDEX ix_states_meta_entity_id ON states_meta(entity_id);
CREATE TABLE state_attributes (attributes_id INTEGER PRIMARY KEY, hash BIGINT, shared_attrs TEXT);
CREATE INDEX ix_state_attributes_hash ON state_attributes(hash);
CREATE TABLE states (state_id INTEGER PRIMARY KEY, entity_id CHAR(0), state VARCHAR(255), attributes CHAR(0),
  event_id SMALLINT, last_changed CHAR(0), last_changed_ts FLOAT, last_updated CHAR(0), last_updated_ts FLOAT,
  old_state_id INTEGER, attributes_id INTEGER, context_id CHAR(0), context_user_id CHAR(0), context_parent_id CHAR(0),
  origin_idx SMALLINT, context_id_bin BLOB, context_user_id_bin BLOB, context_parent_id_bin BLOB, metadata_id INTEGER);
CREATE INDEX ix_states_metadata_id_last_updated_ts ON states(metadata_id, last_updated_ts);
CREATE INDEX ix_states_context_id_bin ON states(context_id_bin);
CREATE INDEX ix_states_last_updated_ts ON states(last_updated_ts);
CREATE INDEX ix_states_old_state_id ON states(old_state_id);
CREATE INDEX ix_states_attributes_id ON states(attributes_id);
CREATE TABLE statistics_short_term (id INTEGER PRIMARY KEY, created_ts FLOAT, metadata_id INTEGER, start_ts FLOAT,
  mean FLOAT, min FLOAT, max FLOAT, last_reset_ts FLOAT, state FLOAT, sum FLOAT);
CREATE UNIQUE INDEX ix_statistics_short_term_statistic_id_start_ts ON statistics_short_term(metadata_id, start_ts);
CREATE INDEX ix_statistics_short_term_start_ts ON statistics_short_term(start_ts);
"""

INSERT_ATTRIBUTES = "INSERT INTO state_attributes VALUES (?, ?, ?)"
INSERT_STATE = (
    "INSERT INTO states (state_id, state, last_updated_ts, old_state_id, attributes_id, origin_idx, context_id_bin, "
    "metadata_id) VALUES (?, ?, ?, ?, ?, 0, ?, ?)"
)
INSERT_STATISTICS = (
    "INSERT INTO statistics_short_term (created_ts, metadata_id, start_ts, mean, min, max) VALUES (?, ?, ?, ?, ?, ?)"
)
#: Seconds between two rounds of statistics.
STATISTICS = 300


@contextmanager
def filled(path: Path, schema: str) -> Iterator[sqlite3.Connection]:
    """A new database with these tables, for the rows before a run."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA synchronous=OFF")
    database.execute("PRAGMA journal_mode=OFF")
    database.executescript("BEGIN;" + schema)
    yield database
    database.execute("COMMIT")
    database.close()


def context_id(seconds: float, dice: random.Random) -> bytes:
    """A ULID, as Home Assistant makes them: milliseconds, and random bytes."""
    return int(seconds * 1000).to_bytes(6, "big") + dice.randbytes(10)


class HomeAssistant:
    """States of entities of very different pace (Zipf), and statistics of two thirds of them every five minutes."""

    name = "Home Assistant"
    skew = 0.8
    #: Seconds between two commits: Home Assistant's default.
    commit = 5.0

    def __init__(self, entities: int = 300, rate: float = 10.0, rows: int = 500_000) -> None:
        self.entities, self.rate, self.rows = entities, rate, rows
        self.paces = list(itertools.accumulate(rank**-self.skew for rank in range(1, entities + 1)))

    def fill(self, path: Path) -> None:
        with filled(path, HA_SCHEMA) as database:
            names = [(one + 1, f"sensor.meter_{one:04}_of_the_house_power") for one in range(self.entities)]
            database.executemany("INSERT INTO states_meta VALUES (?, ?)", names)
            self.begin(database, seed=1)
            for _ in range(math.ceil(self.rows / self.rate / 60)):
                self.step(database, 60.0)

    def begin(self, database: sqlite3.Connection, seed: int = 2) -> None:
        """Takes up where the database ends."""
        self.dice = random.Random(seed)
        one = "SELECT coalesce(max({0}), 0) FROM {1}"
        self.next_state = database.execute(one.format("state_id", "states")).fetchone()[0] + 1
        self.next_attributes = database.execute(one.format("attributes_id", "state_attributes")).fetchone()[0] + 1
        last = database.execute(one.format("last_updated_ts", "states")).fetchone()[0]
        self.time = float(math.ceil(last)) or 1.7e9
        newest = "SELECT metadata_id, state_id, attributes_id, max(last_updated_ts) FROM states GROUP BY metadata_id"
        self.last = {row[0]: (row[1], row[2]) for row in database.execute(newest)}

    def step(self, database: sqlite3.Connection, seconds: float) -> int:
        """The rows of some seconds, within the caller's transaction; returns how many states there were."""
        count = round(self.rate * seconds)
        for index in range(count):
            self.state(database, self.time + seconds * index / count)
        before, self.time = self.time, self.time + seconds
        if self.time // STATISTICS > before // STATISTICS:
            self.statistics(database)
        return count

    def state(self, database: sqlite3.Connection, at: float) -> None:
        dice = self.dice
        entity = bisect.bisect(self.paces, dice.random() * self.paces[-1]) + 1
        old, attributes = self.last.get(entity, (None, 0))
        # A quarter of the entities change their attributes with every tenth state.
        if attributes == 0 or (entity % 4 == 0 and dice.random() < 0.1):
            attributes, self.next_attributes = self.next_attributes, self.next_attributes + 1
            text = (
                '{"unit_of_measurement":"W","device_class":"power","friendly_name":"Meter '
                f'{entity} of the house","state_class":"measurement","last_seen":"{dice.getrandbits(64):016x}"}}'
            )
            database.execute(INSERT_ATTRIBUTES, (attributes, dice.getrandbits(32), text))
        state, self.next_state = self.next_state, self.next_state + 1
        value = f"{dice.random() * 3000:.2f}"
        database.execute(INSERT_STATE, (state, value, at, old, attributes, self.context_id(at), entity))
        self.last[entity] = (state, attributes)

    def context_id(self, at: float) -> bytes:
        return context_id(at, self.dice)

    def statistics(self, database: sqlite3.Connection) -> None:
        values = ((entity, self.dice.random() * 3000) for entity in range(1, self.entities * 2 // 3 + 1))
        rows = ((self.time, entity, self.time - STATISTICS, v, v * 0.9, v * 1.1) for entity, v in values)
        database.executemany(INSERT_STATISTICS, rows)


class TpcB:
    """TPC-B's transactions: an account, a teller, a branch, and a row of history."""

    commit = 0.1

    def __init__(self, skewed: bool, accounts: int = 1_000_000) -> None:
        self.skewed, self.accounts = skewed, accounts
        self.name = "TPC-B, 80-20" if skewed else "TPC-B, uniform"

    def fill(self, path: Path) -> None:
        schema = """CREATE TABLE branches (bid INTEGER PRIMARY KEY, bbalance INT, filler TEXT);
            CREATE TABLE tellers (tid INTEGER PRIMARY KEY, bid INT, tbalance INT, filler TEXT);
            CREATE TABLE accounts (aid INTEGER PRIMARY KEY, bid INT, abalance INT, filler TEXT);
            CREATE TABLE history (tid INT, bid INT, aid INT, delta INT, mtime REAL, filler TEXT);"""
        filler, branches = "x" * 84, self.accounts // 100_000
        with filled(path, schema) as database:
            database.executemany("INSERT INTO branches VALUES (?, 0, ?)", ((b, filler) for b in range(1, branches + 1)))
            tellers = ((t, (t - 1) // 10 + 1, filler) for t in range(1, branches * 10 + 1))
            database.executemany("INSERT INTO tellers VALUES (?, ?, 0, ?)", tellers)
            accounts = ((a, (a - 1) // 100_000 + 1, filler) for a in range(1, self.accounts + 1))
            database.executemany("INSERT INTO accounts VALUES (?, ?, 0, ?)", accounts)

    def begin(self, database: sqlite3.Connection, seed: int = 2) -> None:
        self.dice, self.time = random.Random(seed), 0.0

    def step(self, database: sqlite3.Connection, seconds: float) -> int:
        dice = self.dice
        # 80-20, self-similar (Gray et al., SIGMOD 1994).
        share = dice.random() ** (math.log(0.2) / math.log(0.8)) if self.skewed else dice.random()
        account = min(int(share * self.accounts), self.accounts - 1) + 1
        teller = dice.randrange(self.accounts // 10_000) + 1
        branch, delta = (teller - 1) // 10 + 1, dice.randrange(-5000, 5000)
        self.time += seconds
        database.execute("UPDATE accounts SET abalance = abalance + ? WHERE aid = ?", (delta, account))
        database.execute("SELECT abalance FROM accounts WHERE aid = ?", (account,)).fetchone()
        database.execute("UPDATE tellers SET tbalance = tbalance + ? WHERE tid = ?", (delta, teller))
        database.execute("UPDATE branches SET bbalance = bbalance + ? WHERE bid = ?", (delta, branch))
        history = (teller, branch, account, delta, self.time, " " * 22)
        database.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)", history)
        return 1


class EvenStates(HomeAssistant):
    """The same where all entities are as frequent, and identifiers are random: each state changes other pages of the indexes."""

    name = "states with five indexes: 50 rows every 5 seconds, 1 hour"
    skew = 0.0
    seconds = 3600.0

    def __init__(self, share: float) -> None:
        super().__init__(rows=round(200_000 * share))

    def context_id(self, at: float) -> bytes:
        return self.dice.randbytes(16)


class Load:
    """What another kind of program commits, every `commit` seconds of `seconds`; `rows` are there before."""

    name: str
    commit: float
    seconds: float
    schema: str
    rows = 0
    reconnects = False

    def __init__(self, share: float) -> None:
        self.share, self.rows = share, round(self.rows * share)

    def fill(self, path: Path) -> None:
        with filled(path, self.schema) as database:
            self.begin(database, seed=1)
            self.fill_rows(database)

    def fill_rows(self, database: sqlite3.Connection) -> None:
        """The rows that are there before."""

    def begin(self, database: sqlite3.Connection, seed: int = 2) -> None:
        self.dice, self.steps = random.Random(seed), 0

    def step(self, database: sqlite3.Connection, seconds: float) -> int:
        self.steps += 1
        return self.change(database)

    def change(self, database: sqlite3.Connection) -> int:
        """A transaction; returns how many rows it has changed."""
        raise NotImplementedError

    def text(self, letters: int) -> str:
        return "".join(self.dice.choices(string.ascii_letters + string.digits, k=letters))


class Sessions(Load):
    """Sessions of visitors of a web page, of which few come often; the other index is that of what expires."""

    name = "sessions of a web server: 1,600 updates of 300 bytes, one connection"
    commit, seconds, rows = 0.75, 1200.0, 2000
    schema = """CREATE TABLE sessions (name TEXT PRIMARY KEY, data TEXT, expires INTEGER);
        CREATE INDEX sessions_expires ON sessions(expires);"""

    def fill_rows(self, database: sqlite3.Connection) -> None:
        rows = ((f"session{one:06}", self.text(300), one) for one in range(self.rows))
        database.executemany("INSERT INTO sessions VALUES (?, ?, ?)", rows)

    def change(self, database: sqlite3.Connection) -> int:
        name = f"session{min(int(self.dice.expovariate(1 / 300)), self.rows - 1):06}"
        values = (self.text(300), self.rows + self.steps, name)
        return database.execute("UPDATE sessions SET data = ?, expires = ? WHERE name = ?", values).rowcount


class ShortSessions(Sessions):
    name = "the same, a connection for each update"
    reconnects = True


class Queries(Load):
    """The queries of a DNS server, written once a minute, as many as are then too old."""

    name = "queries of a DNS server: 100 rows and a purge a minute, 3 hours"
    commit, seconds, rows = 60.0, 10_800.0, 200_000
    schema = """CREATE TABLE queries (id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER, type INTEGER, status INTEGER,
          domain INTEGER, client INTEGER, reply REAL);
        CREATE INDEX queries_time ON queries(time);
        CREATE TABLE counters (id INTEGER PRIMARY KEY, value INTEGER);
        INSERT INTO counters VALUES (1, 0);"""

    def queries(self, database: sqlite3.Connection, minute: int) -> None:
        dice = self.dice
        rows = ((minute, 1, 2, dice.randrange(5000), dice.randrange(20), dice.random()) for _ in range(100))
        insert = "INSERT INTO queries (time, type, status, domain, client, reply) VALUES (?, ?, ?, ?, ?, ?)"
        database.executemany(insert, rows)

    def fill_rows(self, database: sqlite3.Connection) -> None:
        for minute in range(self.rows // 100):
            self.queries(database, minute)

    def change(self, database: sqlite3.Connection) -> int:
        self.queries(database, self.rows // 100 + self.steps)
        database.execute("UPDATE counters SET value = value + 100 WHERE id = 1")
        return 100 + database.execute("DELETE FROM queries WHERE time < ?", (self.steps,)).rowcount


class Blobs(Load):
    name = "60 blobs of 500 KB, one every 10 seconds"
    commit, seconds = 10.0, 600.0
    schema = """CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, content BLOB);
        CREATE INDEX things_name ON things(name);"""

    def change(self, database: sqlite3.Connection) -> int:
        values = (self.text(12), self.dice.randbytes(500_000))
        return database.execute("INSERT INTO things (name, content) VALUES (?, ?)", values).rowcount


class Import(Blobs):
    name = "an import: 250,000 rows of 72 bytes in one transaction"
    commit, seconds = 60.0, 60.0

    def change(self, database: sqlite3.Connection) -> int:
        rows = ((self.text(12), self.text(60)) for _ in range(round(250_000 * self.share)))
        return database.executemany("INSERT INTO things (name, content) VALUES (?, ?)", rows).rowcount


class Scattered(Load):
    """Nothing is hot, and all that changes is new: an update of three rows that have a page each."""

    name = "updates of 3 of 40,000 rows of 400 random bytes a second, 20 minutes"
    commit, seconds, rows = 1.0, 1200.0, 40_000
    schema = "CREATE TABLE things (id INTEGER PRIMARY KEY, content BLOB);"

    def fill_rows(self, database: sqlite3.Connection) -> None:
        rows = ((one, self.dice.randbytes(400)) for one in range(self.rows))
        database.executemany("INSERT INTO things VALUES (?, ?)", rows)

    def change(self, database: sqlite3.Connection) -> int:
        rows = [(self.dice.randbytes(400), self.dice.randrange(self.rows)) for _ in range(3)]
        return database.executemany("UPDATE things SET content = ? WHERE id = ?", rows).rowcount


#: What the docs' table of loads has, in this order.
LOADS: list[type[EvenStates] | type[Load]] = [EvenStates, Sessions, ShortSessions, Queries, Blobs, Import, Scattered]
