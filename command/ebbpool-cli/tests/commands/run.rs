//! Tests of `ebbpool run`.

use serde_json::Value;

use crate::harness::{Ebbpool, SMALL_FLASH, TABLE_2};

crate::table::table!("run");

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
    let flash = run("lru", &["--device", SMALL_FLASH]);
    let joules = flash["joules_per_reference"].as_f64().expect("joules");
    let at_work = 0.0495 * flash["cost_us"].as_f64().expect("a time") / 1e6;
    assert!((joules / at_work - 1.0).abs() < 1e-9, "{joules}");
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
