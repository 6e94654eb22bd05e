"""A program that commits a row every tenth of a second, until it is interrupted."""

import sqlite3
import time
from contextlib import closing, suppress

with suppress(KeyboardInterrupt), closing(sqlite3.connect("home.db", isolation_level=None)) as database:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE IF NOT EXISTS measured (at REAL)")
    while True:
        database.execute("INSERT INTO measured VALUES (?)", (time.time(),))
        time.sleep(0.1)
