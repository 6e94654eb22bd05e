"""The two workloads: Home Assistant's recorder, and TPC-B. Both run in virtual time and are the same in every run."""

from __future__ import annotations

import bisect
import itertools
import math
import random
import sqlite3
from pathlib import Path

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


def context_id(seconds: float, dice: random.Random) -> bytes:
    """A ULID, as Home Assistant makes them: milliseconds, and random bytes."""
    return int(seconds * 1000).to_bytes(6, "big") + dice.randbytes(10)


class HomeAssistant:
    """States of entities of very different pace (Zipf, 0.8), and statistics of two thirds of them every five minutes."""

    name = "Home Assistant"
    #: Seconds between two commits: Home Assistant's default.
    commit = 5.0

    def __init__(self, entities: int = 300, rate: float = 10.0, rows: int = 500_000) -> None:
        self.entities, self.rate, self.rows = entities, rate, rows
        self.paces = list(itertools.accumulate(rank**-0.8 for rank in range(1, entities + 1)))

    def fill(self, path: Path) -> None:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA synchronous=OFF")
        database.execute("PRAGMA journal_mode=OFF")
        database.executescript("BEGIN;" + HA_SCHEMA)
        names = [(one + 1, f"sensor.meter_{one:04}_of_the_house_power") for one in range(self.entities)]
        database.executemany("INSERT INTO states_meta VALUES (?, ?)", names)
        self.begin(database, seed=1)
        for _ in range(math.ceil(self.rows / self.rate / 60)):
            self.step(database, 60.0)
        database.execute("COMMIT")
        database.close()

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
        database.execute(INSERT_STATE, (state, value, at, old, attributes, context_id(at, dice), entity))
        self.last[entity] = (state, attributes)

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
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA synchronous=OFF")
        database.execute("PRAGMA journal_mode=OFF")
        database.executescript(
            """BEGIN;
            CREATE TABLE branches (bid INTEGER PRIMARY KEY, bbalance INT, filler TEXT);
            CREATE TABLE tellers (tid INTEGER PRIMARY KEY, bid INT, tbalance INT, filler TEXT);
            CREATE TABLE accounts (aid INTEGER PRIMARY KEY, bid INT, abalance INT, filler TEXT);
            CREATE TABLE history (tid INT, bid INT, aid INT, delta INT, mtime REAL, filler TEXT);"""
        )
        filler, branches = "x" * 84, self.accounts // 100_000
        database.executemany("INSERT INTO branches VALUES (?, 0, ?)", ((b, filler) for b in range(1, branches + 1)))
        tellers = ((t, (t - 1) // 10 + 1, filler) for t in range(1, branches * 10 + 1))
        database.executemany("INSERT INTO tellers VALUES (?, ?, 0, ?)", tellers)
        accounts = ((a, (a - 1) // 100_000 + 1, filler) for a in range(1, self.accounts + 1))
        database.executemany("INSERT INTO accounts VALUES (?, ?, 0, ?)", accounts)
        database.execute("COMMIT")
        database.close()

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
