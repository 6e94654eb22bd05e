vec![
Program { seed: 30, steps: vec![
    Open(Opening { c: 2, database: Y, process: 0, how: Ours, window: 0, options: "log=deltas&log_limit=1000000&memory=1M&checkpoint_age=3600" }),
    Time(2),
    Sql(2, "PRAGMA user_version=7"),
    Kill(0),
] },
Program { seed: 33, steps: vec![
    Open(Opening { c: 0, database: X, process: 0, how: Ours, window: 3, options: "log=deltas&log_limit=20000&memory=1M&checkpoint_age=3600" }),
    Sql(0, "CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, n INT, v TEXT)"),
    CutLater(13, 31),
    Time(31),
    Sql(0, "INSERT OR REPLACE INTO t VALUES (50, 5, printf('%.5c', char(97 + 5 % 26)))"),
    Time(31),
    Time(0),
] }
]