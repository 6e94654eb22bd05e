"""A program that commits a row every tenth of a second, until it is interrupted."""

import sqlite3
import time

database = sqlite3.connect("home.db", isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("CREATE TABLE IF NOT EXISTS measured (at REAL)")
try:
    while True:
        database.execute("INSERT INTO measured VALUES (?)", (time.time(),))
        time.sleep(0.1)
except KeyboardInterrupt:
    database.close()
