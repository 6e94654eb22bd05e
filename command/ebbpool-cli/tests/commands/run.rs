//! Tests of `ebbpool run`.

use serde_json::Value;

use crate::harness::{Ebbpool, SMALL_FLASH, TABLE_2, errors, sample};

#[test]
fn run_reproduces_table_2_of_fd_buffer() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    // The paper does not count the pages that are dirty at the end.
    let common = ["--frames", "2", "--warmup", "2", "--at-end", "free"];
    let run = |policy: &str, more: &[&str]| {
        let args = [&["run", &trace, "--policy", policy], &common[..], more].concat();
        ebbpool.json(&args)
    };
    let belady = run("belady", &[]);
    assert_eq!((&belady["reads"], &belady["writes"]), (&Value::from(6), &Value::from(2)));
    let events = ["--events", "events.txt", "--asymmetry", "2"];
    let fd = run("fd-static:clean=1", &events);
    assert_eq!((&fd["reads"], &fd["writes"]), (&Value::from(8), &Value::from(1)));
    assert_eq!(fd["cost"], Value::from(10.0 / 9.0));
    assert_eq!(fd["references"], Value::from(9));
    assert_eq!(fd["device"], Value::Null);
    assert_eq!(fd["cluster_switches"], Value::from(1));
    assert_eq!(
        ebbpool.text("events.txt"),
        "# counted from here\nevict 25\nwrite 1\nevict 1\nevict 24\nevict 3\nevict 4\nevict 3\nevict 4\nevict 3\n"
    );
    let flushed = ["run", &trace, "--policy", "fd-static:clean=1"];
    let flushed = ebbpool.json(&[&flushed[..], &common[..4]].concat());
    let count = |name: &str| flushed[name].as_u64().expect("a count");
    assert_eq!(count("end_writes"), 1);
    assert_eq!(count("writes"), 2 - count("dirty_before"));
    assert_eq!(count("dirty_left"), 0);
}

#[test]
fn series_have_a_row_every_thousand_references() {
    let ebbpool = Ebbpool::in_scratch();
    let to = &ebbpool.named("s.csv");
    let trace = "zipf:pages=500,refs=10000,write=0.3";
    ebbpool.stdout(&["run", trace, "--policy", "fd-buffer", "--frames", "50", "--series", to]);
    let text = ebbpool.text("s.csv");
    assert_eq!(text.lines().count(), 11);
    assert!(text.starts_with("reference,clean,dirty,target,asymmetry,pc,pd,pdw\n1000,"));
}

#[test]
fn wrong_usage_is_refused_with_the_remedy() {
    let ebbpool = Ebbpool::in_repository();
    let sample = sample("pg-tatp");
    let run = ["run", &sample, "--frames"];
    let with = |frames: &'static str, policy: &'static str| [&run[..], &[frames, "--policy", policy]].concat();
    ebbpool.refused(&with("10", "lur"), 2, &["did you mean 'lru'?"]);
    ebbpool.refused(&with("10", "LRU"), 2, &["did you mean 'lru'?"]);
    ebbpool.refused(&with("10", "cflru:windwo=1"), 2, &["did you mean 'window'?", "it takes window, cluster, keys"]);
    ebbpool.refused(&with("10", "cflru:window=2"), 2, &["0 to 1"]);
    ebbpool.refused(&with("10", "lru:cluster=auto"), 2, &["cluster=64"]);
    ebbpool.refused(&with("0", "lru"), 2, &["from 1 up"]);
    ebbpool.refused(&with("0%", "lru"), 2, &["above 0"]);
    ebbpool.refused(&["compare", "--asymmetry", "-1"], 2, &[]);
    ebbpool.refused(&["compare", "--asymmetry=nan"], 2, &["asymmetry"]);
    for (list, item) in [("3,,4", "item 2"), (",3", "item 1"), ("3,", "item 2")] {
        let words = [item, list, "is empty"];
        ebbpool.refused(&["compare", "--asymmetry", list], 2, &words);
    }
    ebbpool.refused(&["compare", "--policies", "LRU"], 2, &["did you mean 'lru'?"]);
    ebbpool.refused(&["run", "zipf:pagse=3", "--policy", "lru", "--frames", "1"], 2, &["pages"]);
    let warm = [&with("10", "lru")[..], &["--warmup", "300000"]].concat();
    ebbpool.refused(&warm, 2, &["300000", "--warmup"]);
}

/// Table 2 of the CIKM paper with pages of 8 KiB, on a device with pages of 4 KiB.
#[test]
fn a_page_of_the_trace_is_charged_for_all_pages_of_the_device() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    let args = |page_size| {
        let run = ["run", &trace, "--policy", "lru", "--frames", "2"];
        [&run[..], &["--device", "sd-a1", "--page-size", page_size]].concat()
    };
    let run = |page_size| {
        let result = ebbpool.json(&args(page_size));
        let counted = |field: &str| result[field].as_f64().expect("a number");
        (counted("cost_us") * counted("references"), counted("reads"), counted("writes"), counted("asymmetry"))
    };
    let near = |found: f64, expected: f64| {
        let off = (found / expected - 1.0).abs();
        assert!(off < 1e-9, "{found} is not {expected}");
    };
    let (one, reads, writes, asymmetry) = run("4096");
    near(one, reads * 667.0 + writes * 2000.0);
    near(asymmetry, 2000.0 / 667.0);
    // Each further page takes 45.5 µs to read and 410 µs to write.
    let (two, _, _, asymmetry) = run("8192");
    near(two, reads * 712.5 + writes * 2410.0);
    near(asymmetry, 2410.0 / 712.5);
    let (four, ..) = run("16384");
    near(four, reads * 803.5 + writes * 3230.0);

    let notes = |args: &[&str]| errors(&ebbpool.run(args));
    let note = "a page of this trace has 8 KiB, which is 2 pages of sd-a1: each read and write is charged for both";
    assert!(notes(&args("8192")).contains(note));
    assert!(!notes(&args("4096")).contains("charged"));
    assert!(notes(&args("512")).contains("charged for a whole page of the device"));
    let unknown = args("4096");
    assert!(notes(&unknown[..unknown.len() - 2]).contains("states no page size"));
    let compare = ["compare", &trace, "--device", "sd-a1", "--frames", "2"];
    let compared = notes(&[&compare[..], &["--page-size", "8192"]].concat());
    assert!(compared.contains(note), "{compared}");
}

/// 32 GB that survive 1,000 erases at an amplification of 8 take 4 TB.
#[test]
fn a_device_with_an_endurance_has_a_life() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    let run = |device| {
        let run = ["run", &trace, "--policy", "lru", "--frames", "2"];
        [&run[..], &["--page-size", "4096", "--device", device]].concat()
    };
    let text = ebbpool.stdout(&run("sd-a1"));
    for words in ["4 TB (0.32 to 48)", "days", "without a pause", "survives 1000"] {
        assert!(text.contains(words), "{text}");
    }
    let paced = ebbpool.stdout(&[&run("sd-a1")[..], &["--rate", "0.01"]].concat());
    assert!(paced.contains("at this rate"), "{paced}");
    let disk = ebbpool.stdout(&run("hdd1"));
    assert!(!disk.contains("endurance"), "{disk}");
    let compare = ["compare", &trace, "--page-size", "4096", "--frames", "2"];
    let more = ["--policies", "lru,cflru:window=1", "--device", "sd-a1"];
    let table = ebbpool.stdout(&[&compare[..], &more].concat());
    for words in [" sd-a1 lives ", " under ", "it takes 4 TB (0.32 to 48) of writes"] {
        assert!(table.contains(words), "{table}");
    }
}

#[test]
fn the_bill_is_that_of_the_device() {
    let ebbpool = Ebbpool::in_scratch();
    let trace = ebbpool.file("t.txt", TABLE_2);
    let run = |more: &[&str]| {
        let mut args = vec!["run", &trace, "--policy", "fd-static:clean=1", "--frames", "2"];
        args.extend(["--warmup", "2", "--at-end", "free"]);
        args.extend(more);
        ebbpool.json(&args)
    };
    let profile = |name: &str| ebbpool.json(&["devices", name]);
    let figure = |name: &str, figure: &str| profile(name)["figures"][figure]["value"].as_f64().expect("a figure");
    let counts = run(&[]);
    let (reads, writes) = (counts["reads"].as_f64(), counts["writes"].as_f64());
    let (reads, writes) = (reads.expect("reads"), writes.expect("writes"));
    assert_eq!((reads, writes, counts["device"].clone()), (8.0, 1.0, Value::Null));

    let slow = run(&["--device", "flash-136"]);
    assert_eq!((&slow["device"], &slow["reads"]), (&"flash-136".into(), &counts["reads"]));
    let read = figure("flash-136", "read_us");
    let write = figure("flash-136", "write_us");
    let near = |value: &Value, expected: f64| {
        let value = value.as_f64().expect("a number");
        assert!((value / expected - 1.0).abs() < 1e-9, "{value} is not {expected}");
    };
    near(&slow["asymmetry"], write / read);
    near(&slow["cost_us"], (reads * read + writes * write) / 9.0);
    near(&slow["cost"], (reads + writes * write / read) / 9.0);
    assert!(slow["joules_per_reference"].is_null());

    let disk = run(&["--device", "hdd1"]);
    assert!(disk["joules_per_reference"].as_f64().expect("joules") > 0.0);

    // Nine references at a thousand per second take 9 ms, during which the disk and the host draw power.
    let ssd = run(&["--device", "ssd3", "--rate", "1000"]);
    let busy = ssd["cost_us"].as_f64().expect("a time") * 9.0;
    let idle = ssd["device_idle_seconds"].as_f64().expect("a time") * 1e6;
    assert!(idle > 0.0 && busy + idle > 8900.0, "{busy} {idle}");
    let watts = 0.1 + figure("ssd3", "host_active_w");
    near(&ssd["joules_per_reference"], ((busy + idle) * watts + busy * 1.1) / 1e6 / 9.0);
    let without = ["run", &trace, "--policy", "lru", "--frames", "2", "--rate", "5"];
    ebbpool.refused(&without, 2, &["--device"]);

    let price = run(&["--device", "s3-standard"]);
    near(&price["dollars_per_reference"], (reads * 4e-7 + writes * 5e-6) / 9.0);
    assert!(price["cost_us"].is_null());

    let all = ebbpool.json(&[
        "compare", &trace, "--device", "flash-136", "--policies", "fd-static:clean=1", "--frames", "2", "--warmup", "2",
        "--at-end", "free",
    ]);
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    assert_eq!((&all[0]["cost_us"], &all[0]["cost"]), (&slow["cost_us"], &slow["cost"]));

    assert!(all[0]["joules_per_reference"].is_null());
    let on_disk = [
        "compare", &trace, "--device", "hdd1", "--policies", "fd-static:clean=1", "--frames", "2", "--warmup", "2", "--at-end",
        "free",
    ];
    let all = ebbpool.json(&on_disk);
    assert_eq!(all[0]["joules_per_reference"], disk["joules_per_reference"]);
    assert!(ebbpool.stdout(&on_disk).contains("energy per reference"));

    for (args, words) in [
        (["--device", "flash-137"], "flash-136"),
        (["--device", "nowhere/x.toml"], "nowhere/x.toml"),
        (["--asymmetry", "rm3"], "rm1"),
        (["--asymmetry", "file:none.csv"], "none.csv"),
    ] {
        let run = ["run", &trace, "--policy", "lru", "--frames", "2", args[0], args[1]];
        let code = match words {
            "nowhere/x.toml" | "none.csv" => 1,
            _ => 2,
        };
        ebbpool.refused(&run, code, &[words]);
    }
    let both = ["run", &trace, "--policy", "lru", "--frames", "2"];
    let both = [&both[..], &["--device", "ssd3", "--asymmetry", "3"]].concat();
    ebbpool.refused(&both, 2, &["--asymmetry"]);
}

#[test]
fn the_bill_follows_an_asymmetry_that_changes() {
    let ebbpool = Ebbpool::in_scratch();
    let rows = (0..40).map(|at| format!("W {at}\n")).collect::<String>();
    let trace = ebbpool.file("t.txt", rows);
    let changes = ebbpool.file("c.csv", "reference,R\n0,1\n20,10\n");
    let spec = format!("file:{changes}");
    let result = ebbpool.json(&["run", &trace, "--policy", "fifo", "--frames", "10", "--asymmetry", &spec]);
    // The misses of references 10 to 19 write ten pages at R = 1, those of 20 to 39 twenty pages at R = 10.
    // The end writes ten more.
    assert_eq!((&result["writes"], &result["end_writes"]), (&40.into(), &10.into()));
    assert_eq!(result["cost"], (40.0 + 10.0 + 300.0) / 40.0);
    assert_eq!(result["asymmetry"], 1);
}

#[test]
fn a_run_on_a_flash_device_reports_its_wear() {
    let ebbpool = Ebbpool::in_repository();
    let zipf = "zipf:pages=3000,refs=60000,write=0.5";
    let run = |policy: &str, device: &[&str]| {
        let args = ["run", zipf, "--policy", policy, "--frames", "5%"];
        ebbpool.json(&[&args[..], device].concat())
    };
    let plain = run("lru", &[]);
    let flash = run("lru", &["--device", SMALL_FLASH]);
    for same in ["reads", "writes", "hits", "cluster_switches"] {
        assert_eq!(plain[same], flash[same], "lru does not look at the device");
    }
    assert_eq!(flash["host_writes"], flash["writes"]);
    let joules = flash["joules_per_reference"].as_f64().expect("joules");
    let at_work = 0.0495 * flash["cost_us"].as_f64().expect("a time") / 1e6;
    assert!((joules / at_work - 1.0).abs() < 1e-9, "{joules}");
    assert!(flash["erases"].as_u64() > Some(100) && flash["cost_us"].as_f64() > Some(25.0));
    let saving = run("cflru:window=1", &["--device", SMALL_FLASH]);
    assert!(saving["erases"].as_u64() < flash["erases"].as_u64());

    let args = ["compare", zipf, "--frames", "5%", "--policies", "lru,cflru:window=1"];
    let text = ebbpool.stdout(&[&args[..], &["--device", SMALL_FLASH]].concat());
    assert!(text.contains("lifetime of the device"), "{text}");
    let erases = flash["erases"].to_string();
    assert!(text.contains(&erases), "{erases} in {text}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let ebbpool = Ebbpool::in_repository();
    let run = |flag| {
        let trace = "zipf:pages=5000,refs=100000";
        ["run", trace, "--policy", "lru", "--frames", "10", flag, "/dev/full"]
    };
    ebbpool.refused(&run("--events"), 1, &[]);
    ebbpool.refused(&run("--series"), 1, &[]);
    ebbpool.refused(&["trace", "convert", "zipf:refs=100000", "/dev/full", "--to-format", "text"], 1, &[]);
    ebbpool.refused(&["compare", "zipf:refs=9999", "--frames", "9", "--report", "/dev/full"], 1, &[]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let status = ebbpool.command(&["policies"]).stdout(full).status();
    assert_eq!(status.expect("ebbpool starts").code(), Some(1));
}

#[test]
fn checkpoints_write_all_dirty_pages_at_intervals() {
    let ebbpool = Ebbpool::in_scratch();
    // With a checkpoint before every other reference, 1 is written before the third and before the fifth, and never evicted
    // dirty; without one in time, both of its dirty copies are evicted.
    let trace = ebbpool.file("t.txt", "W 1\nR 2\nR 3\nW 1\nR 2\nR 3\n");
    let counts = |policy: &str, more: &[&str]| {
        let args = ["run", &trace, "--policy", policy, "--frames", "2"];
        let found = ebbpool.json(&[&args[..], more].concat());
        let count = |name: &str| found[name].as_u64().expect("a count");
        (count("writes"), count("checkpoint_writes"), found["checkpoints"].clone())
    };
    let two = Value::from("2");
    assert_eq!(counts("lru", &["--checkpoints", "2"]), (2, 2, two.clone()));
    assert_eq!(counts("lru", &["--checkpoints", "2", "--warmup", "3"]), (1, 1, two.clone()));
    assert_eq!(counts("lru", &["--checkpoints", "100"]).0, 2);
    assert_eq!(counts("lru", &[]), (2, 0, Value::Null));
    assert_eq!(counts("lru", &["--checkpoints", "writes=1"]).1, 2);
    // A policy with checkpoints of its own has no others.
    let own = "postgres:checkpoint_writes=1000";
    assert_eq!(counts(own, &["--checkpoints", "2"]), (2, 0, two));
    let policies = ["--policies", "lru,clock", "--frames", "2", "--asymmetry", "8", "--checkpoints", "2"];
    for row in ebbpool.rows(&[&["compare", &trace][..], &policies].concat()) {
        assert_eq!((&row["checkpoint_writes"], &row["checkpoints"]), (&Value::from(2), &Value::from("2")));
    }
    for row in ebbpool.rows(&[&["curve", &trace][..], &policies].concat()) {
        assert_eq!((&row["checkpoint_writes"], &row["checkpoints"]), (&Value::from(2), &Value::from("2")));
    }
    let refused = |checkpoints: &str, words: &[&str]| {
        let args = ["run", &trace, "--policy", "lru", "--frames", "2", "--checkpoints", checkpoints];
        ebbpool.refused(&args, 2, words);
    };
    refused("5min", &["the trace has no times", "--checkpoints"]);
    refused("0", &["'0' is no interval between checkpoints"]);
    let pools = ["curve", &trace, "--clean-pools", "2", "--checkpoints", "2"];
    ebbpool.refused(&pools, 2, &["without checkpoints"]);
}
