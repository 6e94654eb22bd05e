//! What `PRAGMA ebbpool_status` answers.

#![allow(unsafe_code)]

mod support;

use serde_json::Value;
use support::cases::Bench;

#[test]
fn years_of_a_card_follow_from_what_is_written() {
    let bench = Bench::new("status");
    let database = bench.open("window=30").unwrap();
    let status = |value: &str| {
        let sql = format!("PRAGMA ebbpool_status{value}");
        let text = database.query_row(&sql, [], |row| row.get::<_, String>(0));
        text.map(|text| serde_json::from_str::<Value>(&text).unwrap())
    };
    bench.instance.set_time(0.0).unwrap();
    database.execute_batch("CREATE TABLE t (a)").unwrap();
    for n in 0..100 {
        database.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
    }
    bench.instance.set_time(59.0).unwrap();
    let early = status("").unwrap();
    assert_eq!(
        (&early["seconds"], &early["written"]["card_years"]),
        (&59.0.into(), &Value::Null)
    );
    bench.instance.set_time(3600.0).unwrap();
    let usual = status("").unwrap();
    assert_eq!(usual["card"], "sd-a1");
    let figure = |status: &Value, part: &str, name: &str| status[part][name].as_f64().unwrap();
    // Years times bytes is the endurance.
    let endurance = ["written", "without_ebbpool"]
        .map(|part| figure(&usual, part, "card_years") * figure(&usual, part, "bytes"));
    assert!((endurance[0] / endurance[1] - 1.0).abs() < 1e-9);
    assert!(
        figure(&usual, "written", "card_years") > figure(&usual, "without_ebbpool", "card_years")
    );
    let other = status("='emmc-5.1'").unwrap();
    assert_eq!(other["card"], "emmc-5.1");
    assert_ne!(
        figure(&other, "written", "card_years"),
        figure(&usual, "written", "card_years")
    );
    for (value, why) in [("='hdd1'", "magnetic"), ("='nosuch'", "is no device")] {
        let error = status(value).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
