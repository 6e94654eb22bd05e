//! Tests of the advice for operators: its arithmetic by hand, its properties, its warnings and its errors.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ebbpool_lab::advise::{
    AdviceClock, AdvicePageParts, ArrivalRate, ClockSource, DailyWrites, MeasuredWrites, NoteKind, ServerKind, report_page,
};
use ebbpool_lab::{
    Advice, AdviseError, AdviseRequest, AtEnd, CheckpointSchedule, CurveRequest, ErrorKind, Lab, LabError, LabEvents,
    MemorySize, Metadata, Note, PolicySelection, PolicySpec, PricingRequest, ReadOptions, RequestError, ResultDirectory,
    RunRequest, Settings, Silent, Source, Warmup,
};
use ebbpool_trace::{Batch, Format, RequestDetail, Writer};
use tempfile::TempDir;

/// The references of docs/billing.md without its warm-up. With LRU and two frames pages 1, 17, 33, 2 and 3 are read,
/// and 17, 1 and 2 are evicted dirty, and 33 is dirty at the end: 5 reads and 4 writes in 7 references.
const BY_HAND: &str = "# ebbpool.page_size=4096\nR 1\nW 17\nW 1\nR 33\nW 2\nW 33\nR 3\n";

/// A device that takes 1 TB of writes.
const DEVICE: &str = "name = \"by-hand\"\nabout = \"A device for a test\"\nmedium = \"ssd\"\npage_size = 4096\n\
    asymmetry = \"qd1\"\n[figures]\n\
    read_us = { value = 100, basis = \"given\", source = \"a test\" }\n\
    write_us = { value = 400, basis = \"given\", source = \"a test\" }\n\
    tbw = { value = 1, basis = \"given\", source = \"a test\" }\n";

fn written(name: &str, content: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(name);
    std::fs::write(&path, content).expect("a file");
    let path = path.to_str().expect("UTF-8").to_string();
    (directory, path)
}

fn source(text: &str) -> Source {
    Source::parse(text, None).expect("a trace")
}

fn paged(text: &str, page_size: u64) -> Source {
    let options = ReadOptions { page_size: page_size.try_into().ok(), ..ReadOptions::default() };
    Source::parse_with(text, &options).expect("a trace")
}

fn policy(text: &str) -> PolicySpec {
    text.parse().expect("a policy")
}

fn r(ratio: &str) -> PricingRequest {
    PricingRequest::Asymmetry(ratio.parse().expect("an asymmetry"))
}

fn advised(source: &Source, request: &AdviseRequest) -> Advice {
    let lab = Lab::new(Settings::default().threads(2), &Silent);
    lab.advise(source, request).expect("an advice")
}

fn close(found: Option<f64>, expected: f64) {
    let found = found.expect("a figure");
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

fn kinds(advice: &Advice) -> Vec<NoteKind> {
    advice.warnings.iter().map(|note| note.kind).collect()
}

#[test]
fn rates_bytes_and_life_follow_from_counts() {
    let (_directory, trace) = written("by-hand.txt", BY_HAND);
    let (_other, device) = written("by-hand.toml", DEVICE);
    let mut request = AdviseRequest::new(PricingRequest::new(None, Some(&device)).expect("a device"));
    request.now = Some(policy("lru"));
    request.frames = Some(MemorySize::frames(2));
    request.clock = Some(AdviceClock::Duration(Duration::from_secs(7)));
    request.life = Some(Duration::from_secs(20 * 365 * 86_400));
    let advice = advised(&source(&trace), &request);
    let now = &advice.now;
    assert_eq!((now.reads, now.writes, now.dirty_left), (5, 4, 0));
    assert_eq!((now.bytes, advice.asymmetry.0), (Some(8192), 4.0));
    close(Some(now.cost), (5.0 + 4.0 * 4.0) / 7.0);
    // One reference a second.
    close(now.reads_per_second, 5.0 / 7.0);
    close(now.writes_per_second, 4.0 / 7.0);
    let per_day = 4.0 / 7.0 * 86_400.0 * 4096.0;
    close(now.bytes_written_per_day, per_day);
    close(now.life_years, 1e12 / per_day / 365.0);
    close(now.busy_share, (5.0 * 100.0 + 4.0 * 400.0) / 7.0 / 1e6);
    let life = &advice.life;
    assert_eq!((life.host_bytes, life.reached_now), (Some(1e12), Some(false)));
    close(life.required_years, 20.0);
    close(life.allowed_bytes_per_day, 1e12 / 20.0 / 365.0);
    let causes: Vec<(&str, f64)> = life.causes.iter().map(|cause| (cause.cause.as_str(), cause.writes_per_reference)).collect();
    assert_eq!(causes, [("evictions", 3.0 / 7.0), ("pages still dirty at the end", 1.0 / 7.0)]);
    // Without a budget the memory stays.
    assert_eq!(advice.recommendation.frames, 2);
    assert!(kinds(&advice).contains(&NoteKind::FewEvents));
}

/// Pages that are dirty when the counting begins are written by some cause, and are not among the writes.
#[test]
fn the_writes_by_cause_add_up_to_the_writes() {
    for (now, checkpoints) in [("postgres:checkpoint_timeout=2", None), ("lru", Some("700")), ("lru", None)] {
        for at_end in [AtEnd::Flush, AtEnd::Free] {
            let trace = paged("zipf:pages=2000,refs=20000,write=0.4", 4096);
            let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
            request.now = Some(policy(now));
            request.frames = Some(MemorySize::frames(900));
            request.clock = Some(AdviceClock::Rate("500/s".parse().expect("a rate")));
            request.counting.warmup = Warmup::References(9000);
            request.counting.at_end = at_end;
            request.counting.checkpoints = checkpoints.map(|it| it.parse().expect("checkpoints"));
            let advice = advised(&trace, &request);
            assert_eq!(advice.now.dirty_before > 0, at_end == AtEnd::Flush);
            let causes = advice.life.causes.iter().filter(|cause| cause.included);
            let sum: f64 = causes.map(|cause| cause.writes_per_reference).sum();
            close(Some(sum), advice.now.writes_per_reference);
            assert!(
                advice
                    .life
                    .causes
                    .iter()
                    .all(|cause| (cause.writes_per_reference < 0.0) == cause.cause.ends_with("at the start"))
            );
        }
    }
}

#[test]
fn a_life_has_its_range_and_is_judged_by_its_lower_end() {
    let trace = paged("zipf:pages=2000,refs=20000,write=0.4", 4096);
    let years = |text: &str| ebbpool_cost::parse_duration(text).expect("a time");
    let of = |life: Duration| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
        request.now = Some(policy("lru"));
        request.frames = Some(MemorySize::frames(50));
        request.clock = Some(AdviceClock::Rate("5/s".parse().expect("a rate")));
        request.life = Some(life);
        advised(&trace, &request)
    };
    let advice = of(years("1h"));
    let then = &advice.then;
    let [low, high] = then.life_range_years.expect("a range");
    let middle = then.life_years.expect("a life");
    assert!(low < middle && middle < high, "{low} {middle} {high}");
    let [fewest, _] = advice.life.range.expect("a range");
    let host_bytes = advice.life.host_bytes.expect("an endurance");
    close(Some(low / middle), fewest / host_bytes);
    // The log is not counted: the life is the longest possible one, so that it is never long enough for certain.
    assert!(!advice.life.not_counted.is_empty());
    assert_eq!(advice.life.reached_then, None);
    // Every life on the page has its range.
    for paragraph in advice.paragraphs() {
        let Some(table) = paragraph.table else {
            continue;
        };
        let Some(lives) = table.header.iter().position(|name| name.starts_with("lives")) else {
            continue;
        };
        for row in &table.rows {
            let life = &row[lives];
            assert!(life == "-" || life.contains(" to "), "{row:?}");
        }
    }
    // Between the lower end and the middle it is not sure.
    let advice = of(Duration::from_secs_f64((low + middle) / 2.0 * 365.0 * 86_400.0));
    assert_eq!(advice.life.reached_then, Some(false));
    close(advice.life.allowed_bytes_per_day, fewest / ((low + middle) / 2.0 * 365.0));
    let paragraphs = advice.paragraphs();
    let mut sentences = paragraphs.iter().flat_map(|it| &it.sentences);
    assert!(sentences.any(|text| text.contains("by the lower end of the range")));
}

/// Block requests of 4 KiB, one a second: a hot set that is written again and again beside pages that are read.
fn below_a_cache() -> String {
    (0u64..3000)
        .map(|at| match at % 3 {
            0 => format!("0,{},4096,w,{at}.0\n", 8 * (at / 3 % 20)),
            _ => format!("0,{},4096,r,{at}.0\n", 8 * (1000 + at * 7919 % 4001)),
        })
        .collect()
}

#[test]
fn below_a_cache_the_writes_of_the_trace_are_the_wear() {
    let (_directory, trace) = written("disk.spc", &below_a_cache());
    let (_other, device) = written("by-hand.toml", DEVICE);
    let source = paged(&trace, 4096);
    let device = PricingRequest::new(None, Some(&device)).expect("a device");
    let mut request = AdviseRequest::new(device.clone());
    request.frames = Some(MemorySize::frames(200));
    let advice = advised(&source, &request);
    assert!(advice.uncached);
    let now = &advice.now;
    assert_eq!((now.policy.as_str(), now.frames, now.bytes), ("none", 0, Some(0)));
    assert_eq!((now.reads, now.writes, now.references), (2000, 1000, 3000));
    assert_eq!((now.hit_ratio, now.dirty_left, now.end_writes), (0.0, 0, 0));
    close(Some(now.cost), (2000.0 + 4.0 * 1000.0) / 3000.0);
    // By the times of the trace one request arrives a second.
    close(now.writes_per_second, 1.0 / 3.0);
    let per_day = 86_400.0 / 3.0 * 4096.0;
    close(now.bytes_written_per_day, per_day);
    close(now.life_years, 1e12 / per_day / 365.0);
    close(now.busy_share, (2000.0 * 100.0 + 1000.0 * 400.0) / 3000.0 / 1e6);
    let causes: Vec<(&str, Option<f64>)> =
        advice.life.causes.iter().map(|cause| (cause.cause.as_str(), cause.bytes_per_day)).collect();
    assert_eq!(causes, [("the writes of the trace", now.bytes_written_per_day)]);
    // The cache that is asked for holds the hot set, whose pages are written at the end.
    let then = &advice.then;
    assert_eq!(then.frames, 200);
    assert!(then.writes < 400, "{then:?}");
    assert!(advice.knobs.is_empty());
    let text: Vec<String> = advice.paragraphs().into_iter().flat_map(|it| it.sentences).collect();
    let text = text.join("\n");
    let saved = 100.0 * (1.0 - then.writes as f64 / 1000.0);
    for words in [
        "its writes are those of the device: 118 MB a day; the device lives ".to_string(),
        format!("saves {saved:.0} % of these writes"),
        "Writes now: the writes of the trace 118 MB a day".into(),
    ] {
        assert!(text.contains(&words), "no {words}: {text}");
    }
    assert!(!text.contains("evictions") && !text.contains("shared_buffers"), "{text}");
    // The warm-up is not counted.
    let mut late = request.clone();
    late.counting.warmup = Warmup::References(1500);
    let late = advised(&source, &late).now;
    assert_eq!((late.references, late.writes), (1500, 500));
    // A present policy is a buffer below the cache.
    request.now = Some(policy("lru"));
    let advice = advised(&source, &request);
    assert!(!advice.uncached);
    assert_eq!((advice.now.policy.as_str(), advice.now.frames), ("lru", 200));
}

#[test]
fn below_a_cache_the_sizes_are_those_of_the_trace_and_not_of_the_device() {
    let (_directory, trace) = written(
        "disk.blkparse",
        &(0u64..9000).map(|at| format!("8,0 0 {at} {at}.5 1 Q W {} + 8 [a]\n", 8 * (at * at % 1013))).collect::<String>(),
    );
    let source = paged(&trace, 4096);
    let advice = advised(&source, &AdviseRequest::new(r("4")));
    let distinct = advice.distinct_pages;
    assert!(advice.uncached && distinct < 1013);
    assert!(advice.curve.iter().all(|point| point.frames <= distinct));
    let frames = advice.then.frames;
    match &advice.knee {
        Some(knee) => assert_eq!(frames, knee.frames),
        None => assert_eq!(frames, distinct / 33),
    }
    // Only writes: no sentence on reads, and the trace is not too short for having none.
    assert_eq!((advice.now.reads, advice.now.writes), (0, 9000));
    assert!(!kinds(&advice).contains(&NoteKind::FewEvents));
    assert!(kinds(&advice).contains(&NoteKind::BelowCache));
    let curve = advice.paragraphs().into_iter().find(|it| it.title == "Memory");
    let header = curve.and_then(|it| it.table).expect("a table").header;
    assert!(header.contains(&"writes saved".to_string()), "{header:?}");
}

#[test]
fn no_life_is_stated_where_most_writes_are_owed() {
    let (_directory, trace) = written("owed.txt", &BY_HAND.replace("R 3", "W 3"));
    let (_other, device) = written("by-hand.toml", DEVICE);
    let mut request = AdviseRequest::new(PricingRequest::new(None, Some(&device)).expect("a device"));
    request.now = Some(policy("lru"));
    request.frames = Some(MemorySize::frames(4));
    request.clock = Some(AdviceClock::Duration(Duration::from_secs(7)));
    for at_end in [AtEnd::Flush, AtEnd::Free] {
        let mut request = request.clone();
        request.counting.at_end = at_end;
        let advice = advised(&source(&trace), &request);
        assert_eq!(advice.now.life_years, None);
        let note = advice.warnings.iter().find(|it| it.kind == NoteKind::Owed);
        let text = &note.expect("a warning").text;
        assert!(text.contains("4 more dirty pages than its start"), "{text}");
        assert!(text.contains("while 1 were written"), "{text}");
    }
}

#[test]
fn only_a_memory_with_a_life_reaches_one() {
    let trace = paged("zipf:pages=2000,refs=20000,write=0.4", 4096);
    let of = |life: f64| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
        request.now = Some(policy("lru"));
        request.frames = Some(MemorySize::frames(100));
        request.clock = Some(AdviceClock::Rate("5/s".parse().expect("a rate")));
        request.life = Some(Duration::from_secs_f64(life * 365.0 * 86_400.0));
        advised(&trace, &request)
    };
    let advice = of(1.0);
    let lower = |range: Option<[f64; 2]>| range.map(|[low, _]| low);
    let lives = advice.curve.iter().map(|it| lower(it.life_range_years));
    let longest = lives.flatten().fold(0.0, f64::max);
    // The largest buffers owe most of their writes, so that their lives are not known, however few they write.
    assert_eq!(advice.curve.last().and_then(|it| it.life_years), None);
    assert!(of(0.99 * longest).life.reached_by.is_some());
    assert_eq!(of(1.01 * longest).life.reached_by, None);
}

#[test]
fn daily_writes_set_the_clock_by_the_present_system() {
    let (_directory, trace) = written("by-hand.txt", BY_HAND);
    let of = |daily: DailyWrites| {
        let mut request = AdviseRequest::new(r("32"));
        request.now = Some(policy("lru"));
        request.frames = Some(MemorySize::frames(2));
        request.clock = Some(AdviceClock::DailyWrites(daily));
        advised(&source(&trace), &request)
    };
    for daily in [DailyWrites::Pages(1000.0), DailyWrites::Bytes("4096000".parse().expect("bytes"))] {
        let advice = of(daily);
        close(advice.now.bytes_written_per_day, 4_096_000.0);
        close(advice.now.writes_per_second, 1000.0 / 86_400.0);
        let arrivals: ArrivalRate = advice.arrivals.expect("a clock");
        assert_eq!(arrivals.source, ClockSource::DailyWrites);
        close(Some(arrivals.references_per_second), 1000.0 / 86_400.0 * 7.0 / 4.0);
    }
}

/// At R = 400 ebb costs a fifth less than the policy that is best at R = 1.
#[test]
fn above_the_present_asymmetry_the_answer_promises_only_what_it_has_solved() {
    let trace = source("zipf:pages=2000,refs=20000,read-alpha=0.9,write=0.05");
    let mut request = AdviseRequest::new(r("1"));
    request.now = Some(policy("ebb"));
    let size = MemorySize::frames(500);
    request.frames = Some(size.clone());
    let advice = advised(&trace, &request);
    let cost = |name: &str| {
        let run = RunRequest::new(policy(name), size.clone(), r("400"));
        let lab = Lab::new(Settings::default(), &Silent);
        lab.run(&trace, &run).expect("a run").result.cost
    };
    let best = advice.then.policy.as_str();
    assert!(advice.then.cost < advice.now.cost && cost("ebb") < 0.82 * cost(best));
    let paragraphs = advice.paragraphs();
    let sentences = paragraphs.iter().flat_map(|it| &it.sentences);
    let against_ebb = " is at least as cheap as ebb at each R tried, from 0.125 up to the present one";
    assert!(sentences.filter(|it| it.ends_with(against_ebb)).count() == 1, "{paragraphs:?}");
}

#[test]
fn the_best_policy_with_the_present_memory_is_named_beside_the_recommended_one() {
    let trace = paged("zipf:pages=500,refs=10000,read-alpha=0.9,write=0.3", 4096);
    let answer = |now: &str, budget: u64| {
        let mut request = AdviseRequest::new(r("3"));
        request.now = Some(policy(now));
        request.frames = Some(MemorySize::frames(100));
        request.budget = Some(bytes(budget * 4096));
        let mut paragraphs = advised(&trace, &request).paragraphs();
        paragraphs.swap_remove(0).sentences
    };
    for (now, budget, costs) in [
        ("lru", 400, "ccf-lru alone is 19 % cheaper, and ebb is 25 % cheaper"),
        // More memory is all that the answer gives.
        ("lru", 800, "ebb is 25 % cheaper"),
        ("ebb", 400, "ccf-lru alone is 8 % dearer"),
    ] {
        let sentences = answer(now, budget);
        let present = "With the present 100 frames, 400 KiB ";
        let found = sentences.iter().find_map(|it| it.strip_prefix(present));
        assert_eq!(found, Some(costs), "{sentences:?}");
    }
}

#[test]
fn a_small_saving_is_not_no_less() {
    let mut request = AdviseRequest::new(r("2"));
    request.now = Some(policy("arc"));
    request.frames = Some(MemorySize::frames(900));
    let trace = source("zipf:pages=1000,refs=20000,write=0");
    let advice = advised(&trace, &request);
    let saves = advice.saves.expect("a share");
    assert!(saves > 0.05 && saves < 0.5, "{saves}");
    let answer = advice.paragraphs().swap_remove(0).sentences.join("\n");
    let words = format!("the bill falls by {saves:.1} %");
    assert!(answer.starts_with("With ") && answer.contains(&words), "{answer}");
    let page = report_page(&advice, &AdvicePageParts::default());
    assert!(page.contains(&words));
}

#[test]
fn a_budget_gives_the_knee_up_to_itself() {
    let trace = paged("zipf:pages=5000,refs=60000,write=0.3", 4096);
    let of = |frames: u64, budget: u64| {
        let mut request = AdviseRequest::new(r("8"));
        request.frames = Some(MemorySize::frames(frames));
        request.budget = Some(bytes(budget * 4096));
        advised(&trace, &request)
    };
    let more = of(100, 800);
    let frames = more.recommendation.frames;
    assert!((100..=800).contains(&frames), "{frames}");
    if let Some(knee) = &more.knee {
        assert_eq!(frames, knee.frames.clamp(100, 800));
    }
    assert!(more.saves > Some(0.0) && more.then.cost < more.now.cost);
    let less = of(100, 50);
    assert_eq!(less.recommendation.frames, 50);
    assert!(kinds(&less).contains(&NoteKind::LessMemory));
    // Bills fall with memory, and the curve has the sizes in question.
    for frames in [100, 800] {
        assert!(more.curve.iter().any(|point| point.frames == frames));
    }
    assert!(more.curve.iter().all(|point| point.cost <= point.cost_now));
}

fn bytes(bytes: u64) -> ebbpool_lab::ByteSize {
    ebbpool_lab::ByteSize::new(bytes)
}

#[test]
fn warnings_name_what_the_trace_cannot_answer() {
    let frames = |frames: u64| {
        let mut request = AdviseRequest::new(r("8"));
        request.frames = Some(MemorySize::frames(frames));
        request
    };
    let holds_all = advised(&source("zipf:pages=100,refs=5000"), &frames(500));
    let found = kinds(&holds_all);
    assert!(found.contains(&NoteKind::HoldsAllPages), "{found:?}");
    assert!(found.contains(&NoteKind::NoClock) && found.contains(&NoteKind::NoPageSize));
    assert!(holds_all.now.reads_per_second.is_none() && holds_all.life.host_bytes.is_none());
    assert!(holds_all.knobs.iter().all(|knob| !knob.simulated));
    let scan: String = (0..3000).map(|page| format!("R {page}\n")).collect();
    let (_directory, scan) = written("scan.txt", &scan);
    let one_pass = kinds(&advised(&source(&scan), &frames(10)));
    assert!(one_pass.contains(&NoteKind::OnePass), "{one_pass:?}");
    let short = kinds(&advised(&source("uniform:pages=5000,refs=9000"), &frames(4000)));
    assert!(short.contains(&NoteKind::ShortTrace), "{short:?}");
    let cold = kinds(&advised(&source("uniform:pages=900,refs=6000"), &frames(600)));
    assert!(cold.contains(&NoteKind::ColdStart), "{cold:?}");
    let (_directory, device) = written("by-hand.toml", DEVICE);
    let busy = |rate: &str| {
        let mut request = frames(10);
        request.clock = Some(AdviceClock::Rate(rate.parse().expect("a rate")));
        request.pricing = Some(PricingRequest::new(None, Some(&device)).expect("a device"));
        let advice = advised(&paged("uniform:pages=1000,refs=20000,write=0.5", 4096), &request);
        (advice.now.busy_share, kinds(&advice).contains(&NoteKind::Busy))
    };
    assert!(matches!(busy("100/s"), (Some(share), false) if share < 0.1));
    assert!(matches!(busy("100000/s"), (Some(share), true) if share > 1.0));
}

#[test]
fn knobs_of_postgresql_have_figures_by_simulation() {
    let mut request = AdviseRequest::new(r("8"));
    request.server = Some(ServerKind::Postgresql);
    request.frames = Some(MemorySize::frames(100));
    request.clock = Some(AdviceClock::Duration(Duration::from_secs(4000)));
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 8192);
    let advice = advised(&trace, &request);
    assert_eq!(advice.now.policy, "postgres");
    let of = |setting: &str| {
        let found = advice.knobs.iter().filter(|knob| knob.setting == setting);
        found.collect::<Vec<_>>()
    };
    let sizes = of("shared_buffers");
    let values: Vec<_> = sizes.iter().map(|knob| knob.to.as_deref()).collect();
    assert_eq!(values, [Some("1600kB"), Some("3200kB")]);
    assert!(sizes.iter().all(|knob| knob.saves_reads > Some(0.0)));
    // 40,000 references in 4,000 seconds: intervals of 5, 15 and 30 minutes have two checkpoints each.
    let intervals = of("checkpoint_timeout");
    let values: Vec<_> = intervals.iter().map(|knob| knob.to.as_deref()).collect();
    assert_eq!(values, [Some("15min"), Some("30min")]);
    assert!(intervals.iter().all(|knob| knob.saves_writes > Some(0.0)));
    assert!(advice.life.causes.iter().any(|cause| cause.cause.starts_with("checkpoints")));
    assert!(!of("bgwriter_lru_maxpages")[0].simulated);
    // The answer begins with what the server's settings can do, and names the policy after it.
    let answer = |advice: &Advice| advice.paragraphs().swap_remove(0).sentences;
    let sentences = answer(&advice);
    let first = |start: &str| sentences.iter().position(|text| text.starts_with(start));
    assert_eq!(first("Set shared_buffers = 3200kB (now 800kB): reads -"), Some(0), "{sentences:?}");
    assert_eq!(first("More memory than that pays up to 1,981 frames"), Some(1), "{sentences:?}");
    assert!(first("Set checkpoint_timeout = 15min (now 5min, PostgreSQL's default): reads").is_some(), "{sentences:?}");
    // A buffer that is larger than the data.
    let mut large = request.clone();
    large.frames = Some(MemorySize::frames(8000));
    let sentences = answer(&advised(&trace, &large));
    assert!(sentences[0].contains(" is enough, because the trace requests no more pages"));
    // One that has room for all pages, and one beside which the rest is small: no memory that is there already pays.
    for (frames, enough) in
        [(advice.distinct_pages, "the trace requests no more pages"), (advice.distinct_pages - 3, " is enough")]
    {
        large.frames = Some(MemorySize::frames(frames));
        let sentences = answer(&advised(&trace, &large));
        assert!(sentences[0].contains(enough), "{frames}: {sentences:?}");
    }
    // Without a clock there is no interval.
    let mut unclocked = request.clone();
    unclocked.clock = None;
    let unknown = advised(&trace, &unclocked);
    let knob = unknown.knobs.iter().find(|knob| knob.setting == "checkpoint_timeout");
    assert!(knob.is_some_and(|knob| !knob.simulated && knob.saves_writes.is_none()));
}

/// A server has no setting for its policy: another one stands in its own section, and nowhere else.
#[test]
fn what_a_server_cannot_have_is_not_its_advice() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 8192);
    for budget in [None, Some(700), Some(200), Some(90)] {
        let mut request = of_postgresql("postgres");
        request.budget = budget.map(|frames| bytes(frames * 8192));
        let advice = advised(&trace, &request);
        let then = advice.then.frames;
        assert_eq!(then.cmp(&200), budget.map_or(Order::Greater, |budget: u64| budget.cmp(&200)));
        assert!(advice.keeps_policy && advice.other_policy.is_some());
        let policies = [&advice.now, &advice.then, &advice.same_memory].map(|load| load.policy.as_str());
        assert_eq!(policies, ["postgres"; 3]);
        for point in &advice.curve {
            assert_eq!((point.policy.as_str(), point.cost), ("postgres", point.cost_now));
            assert!(point.best_cost <= point.cost);
        }
        let set = format!("shared_buffers = {}kB", then * 8);
        let (_, others): (Vec<_>, Vec<_>) =
            advice.paragraphs().into_iter().partition(|it| it.title == "What another policy could save");
        let mut texts = Vec::new();
        for paragraph in &others {
            texts.extend(paragraph.sentences.clone());
            texts.extend(paragraph.table.iter().flat_map(|it| it.rows.iter().chain([&it.header])).flatten().cloned());
        }
        let foreign = ["ebb", "s3-fifo", "arc", "lru", "cflru", "ccf-lru", "w-tinylfu", "gclock", "clock"];
        for text in &texts {
            let mut words = text.split(' ');
            assert!(words.all(|word| !foreign.contains(&word)), "{text}");
        }
        // The first sentence, the row and the page have the same setting, and the table marks the present size.
        assert!(texts[0].contains(&set), "{texts:?}");
        let rows = |title: &str| others.iter().find(|it| it.title == title).and_then(|it| it.table.clone()).expect("rows").rows;
        let loads = rows("Reads and writes");
        assert_eq!(loads.last().map(|row| row[1].clone()), Some(format!("{}kB", then * 8)));
        let page = report_page(&advice, &AdvicePageParts::default());
        assert!(page.contains(&set) && page.contains(">now"), "{set}");
        let knee = texts.iter().filter(|text| text.contains("knee")).count();
        assert_eq!(knee, 1);
    }
}

/// Requests of 2,628,000 seconds, and memory by the GiB: more memory saves $ of requests and costs $ of its own.
#[test]
fn a_month_in_dollars_has_requests_and_memory() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 8192);
    let of = |device: &str, price: Option<f64>, rate: Option<&str>| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some(device)).expect("a device"));
        (request.server, request.frames) = (Some(ServerKind::Postgresql), Some(MemorySize::frames(100)));
        request.clock = rate.map(|rate| AdviceClock::Rate(rate.parse().expect("a rate")));
        request.memory_price = price;
        advised(&trace, &request)
    };
    let with = of("s3-standard", Some(1000.0), Some("50/s"));
    let memory = |frames: u64| 1000.0 * (frames * 8192) as f64 / f64::from(1 << 30);
    for load in [&with.now, &with.then] {
        let requests = load.reads_per_reference * 4e-7 + load.writes_per_reference * 5e-6;
        close(load.dollars_per_month, 50.0 * 2_628_000.0 * requests + 0.000_023 * memory(2000) + memory(load.frames));
    }
    let point = with.curve.iter().find(|point| point.frames == with.then.frames).expect("a point");
    close(point.dollars_per_month, with.then.dollars_per_month.expect("dollars"));
    let knob = with.knobs.iter().find(|knob| knob.simulated).expect("a setting");
    assert!(knob.dollars_per_month < with.now.dollars_per_month);
    let text = with.paragraphs().into_iter().flat_map(|it| it.sentences).collect::<Vec<_>>().join("\n");
    assert!(text.contains("$ a month is without peaks, the log and other files"), "{text}");
    assert!(text.contains(" a month instead of $"), "{text}");
    let page = report_page(&with, &AdvicePageParts::default());
    assert!(page.contains("<h2>$ a month</h2>"));
    // Without a price there is no figure, and without a rate only that of the memory.
    assert_eq!(of("sd-a1", None, Some("50/s")).now.dollars_per_month, None);
    assert_eq!(of("s3-standard", None, None).now.dollars_per_month, None);
    let of_memory = of("s3-standard", Some(1000.0), None);
    close(of_memory.now.dollars_per_month, memory(100));
    assert_eq!(of_memory.dollars_without, ["the device"]);
    assert_eq!(with.dollars_without, ["peaks", "the log and other files", "checkpoints"]);
}

/// With a price of the memory and of the device the size that costs least is the answer, whatever a doubling saves of the bill.
#[test]
fn with_prices_the_cheapest_size_is_the_answer() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 8192);
    let of = |server: ServerKind, price: f64| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some("s3-standard")).expect("a device"));
        (request.server, request.frames) = (Some(server), Some(MemorySize::frames(100)));
        request.budget = Some(bytes(16 << 20));
        request.clock = Some(AdviceClock::Rate("50/s".parse().expect("a rate")));
        request.memory_price = Some(price);
        let advice = advised(&trace, &request);
        let sentences = advice.paragraphs().swap_remove(0).sentences;
        (advice, sentences)
    };
    for server in [ServerKind::Postgresql, ServerKind::Other] {
        for (price, largest) in [(1e-3, true), (1e9, false)] {
            let (advice, sentences) = of(server, price);
            let cost = |point: &ebbpool_lab::advise::MemoryPoint| point.dollars_per_month.expect("dollars");
            let least = advice.curve.iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("a point");
            assert_eq!((advice.cheapest_frames, advice.then.frames), (Some(least.frames), least.frames), "{sentences:?}");
            assert_eq!(advice.then.frames > 1000, largest);
            let says = sentences.join("\n");
            assert!(says.contains("o other size costs less"), "{says}");
            assert!(advice.then.dollars_per_month < advice.now.dollars_per_month);
        }
    }
}

/// Records the notes.
#[derive(Default)]
struct StoredResults(AtomicUsize, AtomicUsize);

impl LabEvents for StoredResults {
    fn note(&self, note: &Note) {
        if let Note::StoredResults { stored, all, .. } = note {
            self.0.fetch_add(*stored, Ordering::Relaxed);
            self.1.fetch_add(*all, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_second_advice_takes_no_simulation() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = paged("zipf:pages=2000,refs=30000,write=0.3", 8192);
    let mut request = AdviseRequest::new(r("16"));
    request.frames = Some(MemorySize::frames(100));
    let advice = || {
        let events = StoredResults::default();
        let settings = Settings::default().results(Some(ResultDirectory::new(directory.path())));
        let advice = Lab::new(settings, &events).advise(&trace, &request).expect("an advice");
        let json = serde_json::to_string(&advice).expect("JSON");
        (json, events.0.into_inner(), events.1.into_inner())
    };
    let (first, _, _) = advice();
    let (second, stored, all) = advice();
    assert_eq!(first, second);
    assert!(stored > 0 && stored == all, "{stored} of {all}");
}

#[test]
fn the_answer_is_one_json_object_with_all_fields() {
    let advice = advised(&paged("zipf:pages=500,refs=9000,write=0.3", 4096), &AdviseRequest::default());
    let json = serde_json::to_value(&advice).expect("JSON");
    for field in ["recommendation", "now", "then", "warnings", "knobs", "curve", "knee", "life"] {
        assert!(json.get(field).is_some(), "{field}");
    }
    for field in ["policy", "frames", "bytes"] {
        assert!(!json["recommendation"][field].is_null(), "{field}");
    }
    let timed = ["reads_per_second", "writes_per_second", "bytes_written_per_day", "life_years"];
    for load in ["now", "then"] {
        // The time is not known.
        assert!(timed.iter().all(|field| json[load].get(field).is_some_and(|it| it.is_null())));
    }
    assert!(json["warnings"].as_array().is_some_and(|all| all.iter().all(|it| it.is_string())));
    // The lab's texts name no option of the command.
    let texts: Vec<String> = advice.paragraphs().into_iter().flat_map(|paragraph| paragraph.sentences).collect();
    assert!(texts.iter().all(|text| !text.contains("--")), "{texts:?}");
    assert!(advice.paragraphs().iter().all(|paragraph| {
        let table = paragraph.table.iter();
        let mut rows = table.flat_map(|table| table.rows.iter().map(|row| (row, &table.header)));
        rows.all(|(row, header)| row.len() == header.len())
    }));
    let mut parts = AdvicePageParts::default();
    parts.commands = vec![("a <b>".into(), "ebbpool x".into())];
    parts.hints = vec![" (a hint)".into()];
    let page = report_page(&advice, &parts);
    assert!(page.contains("a &lt;b&gt;") && page.contains("<span>ebbpool</span> <span>x</span>"));
    let first = format!("{} (a hint).", advice.warnings[0].text);
    assert!(page.contains(&first), "no {first}");
    assert_eq!(page.matches("<svg class=\"figure\"").count(), 2);
}

#[test]
fn invalid_requests_are_refused() {
    let trace = source("zipf:pages=100,refs=2000");
    let lab = Lab::new(Settings::default(), &Silent);
    let refused = |source: &Source, request: AdviseRequest| {
        let error = lab.advise(source, &request).expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Request, "{error}");
        assert!(!error.to_string().contains("--"), "{error}");
        error
    };
    let advise = |error: &LabError| match error {
        LabError::Request(RequestError::Advise(error)) => error.clone(),
        other => panic!("{other}"),
    };
    let with = |change: fn(&mut AdviseRequest)| {
        let mut request = AdviseRequest::new(r("8"));
        change(&mut request);
        request
    };
    let no_page = refused(&trace, with(|it| it.budget = Some(bytes(1 << 20))));
    assert!(matches!(advise(&no_page), AdviseError::BudgetWithoutPageSize(_)));
    let small = refused(&paged("zipf:pages=100,refs=2000", 8192), with(|it| it.budget = Some(bytes(8191))));
    assert!(matches!(advise(&small), AdviseError::BudgetBelowPage { page_size: 8192, .. }));
    let none = refused(&trace, with(|it| it.clock = Some(AdviceClock::Duration(Duration::ZERO))));
    assert_eq!(advise(&none), AdviseError::NoDuration);
    let none = refused(&trace, with(|it| it.life = Some(Duration::ZERO)));
    assert_eq!(advise(&none), AdviseError::NoLife);
    let offline = refused(&trace, with(|it| it.now = Some(policy("belady"))));
    assert!(matches!(advise(&offline), AdviseError::NotOnline(_)));
    let changes = refused(&trace, with(|it| it.pricing = Some(r("rm1"))));
    assert!(matches!(advise(&changes), AdviseError::Changes(_)));
    let daily = |daily| {
        let mut request = AdviseRequest::new(r("8"));
        request.clock = Some(AdviceClock::DailyWrites(daily));
        request
    };
    for pages in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = refused(&trace, daily(DailyWrites::Pages(pages)));
        assert!(matches!(advise(&error), AdviseError::NotDailyWrites(_)));
    }
    let bytes = daily(DailyWrites::Bytes("10GB".parse().expect("bytes")));
    assert_eq!(advise(&refused(&trace, bytes)), AdviseError::DailyBytesWithoutPageSize);
}

#[test]
fn extreme_traces_have_an_advice() {
    let mut request = AdviseRequest::default();
    request.counting.warmup = Warmup::References(0);
    for text in ["R 1\n", "W 1\n", "W 1\nW 1\nW 1\n", "R 1\nW 2\nR 3\n"] {
        let (_directory, path) = written("short.txt", text);
        let advice = advised(&source(&path), &request);
        assert!(advice.then.cost <= advice.now.cost && !advice.warnings.is_empty());
        advice.paragraphs();
        let mut frames = request.clone();
        frames.frames = Some(MemorySize::frames(u64::from(u32::MAX) / 4));
        // More frames than a buffer can have are an error, not a panic.
        let _ = Lab::new(Settings::default(), &Silent).advise(&source(&path), &frames);
    }
}

/// Stops the work after a number of progress reports.
struct StopAfterReports(AtomicUsize, AtomicBool);

impl LabEvents for StopAfterReports {
    fn progress(&self, _: &str, _: f64) {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        self.1.store(left <= 1, Ordering::Relaxed);
    }

    fn stop(&self) -> &AtomicBool {
        &self.1
    }
}

#[test]
fn an_advice_can_be_stopped_and_sent() {
    fn is_send<T: Send>() {}
    is_send::<Advice>();
    let long = source("zipf:pages=5000,refs=600000,write=0.3");
    for reports in [1, 3, 10] {
        let events = StopAfterReports(AtomicUsize::new(reports), AtomicBool::new(false));
        let lab = Lab::new(Settings::default().threads(2), &events);
        let stopped = lab.advise(&long, &AdviseRequest::default());
        assert!(stopped.is_err_and(|error| error.is_interrupted()), "{reports}");
    }
}

#[test]
fn checkpoints_without_a_place_are_not_said_to_be_there() {
    let trace = paged("zipf:pages=2000,refs=20000,write=0.4", 4096);
    let of = |clock: &str| {
        let clock = match clock.strip_suffix("/s") {
            Some(_) => AdviceClock::Rate(clock.parse().expect("a rate")),
            None => AdviceClock::DailyWrites(DailyWrites::Bytes(clock.parse().expect("bytes"))),
        };
        let mut request = AdviseRequest::new(r("8"));
        request.now = Some(policy("lru"));
        request.frames = Some(MemorySize::frames(100));
        request.clock = Some(clock);
        request.counting.checkpoints = Some("1min,writes=500".parse().expect("a schedule"));
        let advice = advised(&trace, &request);
        let text: Vec<String> = advice.paragraphs().into_iter().flat_map(|it| it.sentences).collect();
        (advice.checkpoints, text.join("\n"))
    };
    let (checkpoints, text) = of("100/s");
    assert_eq!(checkpoints.as_deref(), Some("1min,writes=500"));
    assert!(text.contains("every 1min or 500 references that write"));
    // The rate follows from the writes of the simulation, which comes too late for its checkpoints.
    let (checkpoints, text) = of("10GB");
    assert_eq!(checkpoints.as_deref(), Some("writes=500"));
    assert!(text.contains("(1min,writes=500) are not simulated"), "{text}");
    assert!(text.contains("every 500 references that write"), "{text}");
}

#[test]
fn the_pages_that_a_buffer_had_are_no_arrivals() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("captured.parquet");
    let mut batch: Batch = (0..6000).map(|at| (at * at % 997, at % 3 == 0)).collect();
    let times = std::iter::repeat_n(0, 5000).chain((1..=1000).map(|at| 1000 * at));
    batch.requests = times.map(|time_us| RequestDetail { time_us, bypass: 0 }).collect();
    let mut writer = Writer::create(&path, Format::Native, &Metadata::default()).expect("a writer");
    writer.write(&batch).expect("references");
    writer.finish().expect("a file");
    let source = source(path.to_str().expect("UTF-8"));
    for (warmup, seconds) in [(0, 1.0), (5000, 1.0), (5500, 0.5)] {
        let mut request = AdviseRequest::new(r("8"));
        request.frames = Some(MemorySize::frames(100));
        request.counting.warmup = Warmup::References(warmup);
        let advice = advised(&source, &request);
        let arrivals = advice.arrivals.expect("times");
        assert_eq!(arrivals.source, ClockSource::TraceTimes);
        close(Some(arrivals.references_per_second), 1000.0);
        close(Some(arrivals.seconds), seconds);
        let reads = advice.now.reads as f64 / advice.now.references as f64;
        close(advice.now.reads_per_second, 1000.0 * reads);
    }
}

#[test]
fn checkpoints_follow_the_times_behind_the_pages_that_a_buffer_had() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("captured.parquet");
    // 3,000 pages that the buffer had at time 0, then 10 seconds in which each of 1,000 references a second writes one of 10 pages.
    let had = (0..3000).map(|page| (page, false));
    let mut batch: Batch = had.chain((0..10_000).map(|at| (at % 10, true))).collect();
    let times = std::iter::repeat_n(0, 3000).chain((1..=10_000).map(|at| 1000 * at));
    batch.requests = times.map(|time_us| RequestDetail { time_us, bypass: 0 }).collect();
    let metadata = Metadata { page_size: Some(4096), ..Metadata::default() };
    let mut writer = Writer::create(&path, Format::Native, &metadata).expect("a writer");
    writer.write(&batch).expect("references");
    writer.finish().expect("a file");
    let mut request = AdviseRequest::new(r("8"));
    request.now = Some(policy("postgres:checkpoint_timeout=1"));
    request.frames = Some(MemorySize::frames(3000));
    request.counting.warmup = Warmup::References(3000);
    let advice = advised(&source(path.to_str().expect("UTF-8")), &request);
    // 10 pages in each second: 10 checkpoints, of which the last is before the last reference, whose page is owed at the end.
    assert_eq!(advice.now.checkpoint_writes, 100);
    assert_eq!(advice.now.writes, 101);
    let found = advice.now.bytes_written_per_day.expect("bytes");
    let truth = 10.0 * 4096.0 * 86_400.0;
    assert!((found / truth - 1.0).abs() < 0.02, "{found} {truth}");
}

/// A load of PostgreSQL with this policy, 10 references a second.
fn of_postgresql(now: &str) -> AdviseRequest {
    {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
        request.server = Some(ServerKind::Postgresql);
        request.now = Some(policy(now));
        request.frames = Some(MemorySize::frames(200));
        request.clock = Some(AdviceClock::Duration(Duration::from_secs(4000)));
        request
    }
}

#[test]
fn every_candidate_has_the_checkpoints_of_the_present_system() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 8192);
    let with = advised(&trace, &of_postgresql("postgres:checkpoint_timeout=300"));
    assert_eq!((with.now.policy.as_str(), with.checkpoints.as_deref()), ("postgres", Some("5min")));
    assert!(with.now.checkpoint_writes > 0 && with.then.checkpoint_writes > 0);
    // Both, and all others, are run with a checkpoint every 3,000 references.
    let schedule: CheckpointSchedule = "3000".parse().expect("a schedule");
    for load in [&with.now, &with.then, &with.same_memory] {
        let mut request = RunRequest::new(
            policy(&load.policy),
            MemorySize::frames(load.frames),
            PricingRequest::new(None, Some("sd-a1")).expect("a device"),
        );
        request.counting.checkpoints = Some(schedule);
        request.counting.rate = Some("10".parse().expect("a rate"));
        let lab = Lab::new(Settings::default(), &Silent);
        let run = lab.run(&trace, &request).expect("a run").result;
        assert_eq!((run.writes, run.checkpoint_writes), (load.writes, load.checkpoint_writes));
        assert_eq!(run.checkpoints.as_deref(), Some("3000"));
    }
    let knobs = "the interval of checkpoints";
    let asked = with.questions.iter().filter(|question| question.about != knobs);
    assert!(asked.clone().count() >= 2);
    assert!(asked.into_iter().all(|question| question.counting.checkpoints == Some(schedule)));
    // The log is not in the trace, and the checkpoints are counted.
    assert_eq!(with.life.not_counted, ["the log and other files"]);
    let without = advised(&trace, &of_postgresql("postgres"));
    assert_eq!((without.now.checkpoint_writes, &without.checkpoints), (0, &None));
    assert!(without.life.not_counted.contains(&"checkpoints".to_string()));
    assert!(without.now.writes < with.now.writes);
    // Without a clock an interval of time has no place, and the page says so.
    let mut unknown = of_postgresql("postgres:checkpoint_timeout=300");
    unknown.clock = None;
    let unknown = advised(&trace, &unknown);
    assert_eq!(unknown.now.checkpoint_writes, 0);
    assert!(unknown.assumptions.iter().any(|note| note.kind == NoteKind::Checkpoints));
}

#[test]
fn a_life_starts_from_measured_bytes() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 4096);
    let (_directory, device) = written("by-hand.toml", DEVICE);
    let mut measured = MeasuredWrites::new(43_200.0);
    measured.page_bytes = Some(40_000);
    measured.log_bytes = Some(10_000);
    measured.process_bytes = Some(80_000);
    let mut request = AdviseRequest::new(PricingRequest::new(None, Some(&device)).expect("a device"));
    request.now = Some(policy("lru"));
    request.frames = Some(MemorySize::frames(100));
    request.budget = Some(bytes(800 * 4096));
    request.measured = Some(measured.clone());
    let advice = advised(&trace, &request);
    // Half a day was measured. How fast references arrive does not matter.
    close(advice.now.bytes_written_per_day, 100_000.0);
    close(advice.now.life_years, 1e12 / 100_000.0 / 365.0);
    let [low, high] = advice.now.life_range_years.expect("a range");
    close(Some(low), 1e12 / 160_000.0 / 365.0);
    close(Some(high), 1e12 / 100_000.0 / 365.0);
    let day = advice.life.measured.clone().expect("measured bytes");
    assert_eq!((day.pages, day.log, day.most), (Some(80_000.0), Some(20_000.0), Some(160_000.0)));
    assert!(advice.life.not_counted.is_empty());
    // The pages change as in the simulation; the log and the rest stay.
    let change = advice.then.writes_per_reference / advice.now.writes_per_reference;
    assert!(change < 0.9, "{change}");
    close(advice.then.bytes_written_per_day, 80_000.0 * change + 20_000.0);
    let [low, _] = advice.then.life_range_years.expect("a range");
    close(Some(low), 1e12 / (80_000.0 * change + 80_000.0) / 365.0);
    let section = |advice: &Advice| {
        let mut paragraphs = advice.paragraphs().into_iter();
        let life = paragraphs.find(|it| it.title == "Life of the device");
        life.expect("a section").sentences
    };
    let sentences = section(&advice);
    let start = "Measured in 12 hours: the server writes 0.10 MB a day, 0.08 MB pages and 0.02 MB log";
    assert!(sentences[0].starts_with(start), "{sentences:?}");
    // Without the other files, and with an interval between checkpoints that is longer than the capture, no life is a single number.
    let mut less = request;
    less.server = Some(ServerKind::Postgresql);
    less.now = Some(policy("postgres:checkpoint_timeout=86400"));
    measured.process_bytes = None;
    less.measured = Some(measured);
    let advice = advised(&trace, &less);
    assert_eq!(advice.life.not_counted.len(), 2, "{:?}", advice.life.not_counted);
    let table = advice.paragraphs().swap_remove(1).table.expect("a table");
    assert_eq!(table.header.last().map(String::as_str), Some("lives at most"));
    assert!(section(&advice).iter().any(|text| text.starts_with("Each life is an upper limit")));
    // Only the sum is known: it is the present system's, and no change of it is.
    let mut sum_only = MeasuredWrites::new(43_200.0);
    sum_only.process_bytes = Some(50_000);
    less.measured = Some(sum_only);
    less.now = Some(policy("lru"));
    let advice = advised(&trace, &less);
    close(advice.now.bytes_written_per_day, 100_000.0);
    assert_eq!(advice.then.bytes_written_per_day, None);
}

/// What a capture of half a day has counted.
fn half_a_day(page_bytes: Option<u64>, log_bytes: u64, process_bytes: u64) -> MeasuredWrites {
    let mut measured = MeasuredWrites::new(43_200.0);
    measured.page_bytes = page_bytes;
    measured.log_bytes = Some(log_bytes);
    measured.process_bytes = Some(process_bytes);
    measured
}

#[test]
fn a_device_that_the_log_alone_wears_does_not_live_for_ever() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0", 4096);
    let (_directory, device) = written("by-hand.toml", DEVICE);
    let of = |years: u64, measured: MeasuredWrites| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some(&device)).expect("a device"));
        request.now = Some(policy("lru"));
        request.frames = Some(MemorySize::frames(100));
        request.life = Some(Duration::from_secs(years * 365 * 86_400));
        request.measured = Some(measured);
        advised(&trace, &request)
    };
    // 1 GB of log a day, and 2 GB at most: 1,000 days, and 500 in any case.
    let log = half_a_day(Some(0), 500_000_000, 1_000_000_000);
    let advice = of(2, log.clone());
    close(advice.now.life_years, 1000.0 / 365.0);
    assert_eq!(advice.now.writes, 0);
    let reached = |advice: &Advice| (advice.life.reached_now, advice.life.reached_then);
    assert_eq!(reached(&advice), (Some(false), Some(false)));
    assert_eq!(advice.life.reached_by, None);
    assert_eq!(reached(&of(1, log)), (Some(true), Some(true)));
    // By its own count it writes nothing, and the kernel counts something: no life is known.
    let other = of(1, half_a_day(Some(0), 0, 1_000_000_000));
    assert_eq!(reached(&other), (None, None));
    let nothing = of(1, half_a_day(Some(0), 0, 0));
    assert_eq!(reached(&nothing), (Some(true), Some(true)));
}

#[test]
fn a_longer_interval_of_checkpoints_starts_from_measured_bytes() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 8192);
    // In the time of the request, which has 21.6 of them in a day.
    let mut measured = half_a_day(Some(40_000_000), 10_000_000, 80_000_000);
    measured.seconds = 4000.0;
    let of = |measured: Option<MeasuredWrites>, now: &str| {
        let mut request = of_postgresql(now);
        request.frames = Some(MemorySize::frames(1000));
        request.measured = measured;
        let advice = advised(&trace, &request);
        let knobs = advice.knobs.clone().into_iter();
        let longer: Vec<_> = knobs.filter(|knob| knob.setting == "checkpoint_timeout").collect();
        assert_eq!(longer.len(), 2);
        (advice, longer)
    };
    // The settings are not said: the simulation of the present system has no checkpoints, and what was measured has them.
    let (advice, longer) = of(Some(measured), "postgres");
    for knob in &longer {
        let saved = knob.saves_writes.expect("a share") / 100.0;
        assert!(saved > 0.0);
        close(knob.bytes_written_per_day, 21.6 * (40_000_000.0 * (1.0 - saved) + 10_000_000.0));
        assert!(knob.life_years > advice.now.life_years, "{knob:?}");
    }
    let answer = advice.paragraphs().swap_remove(0).sentences;
    let says_so = |text: &String| text.contains("= 15min (now 5min, PostgreSQL's default): ");
    assert!(answer.iter().any(says_so), "{answer:?}");
    // Without measured bytes the life of now has no checkpoints, and would be the longer one.
    let (_, longer) = of(None, "postgres");
    assert!(longer.iter().all(|knob| knob.life_years.is_none()));
    let (advice, longer) = of(None, "postgres:checkpoint_timeout=300");
    for knob in &longer {
        assert!(knob.life_years > advice.now.life_years, "{knob:?}");
    }
}

#[test]
fn facts_of_another_trace_are_refused() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 4096);
    let of = |references: u64| {
        let mut request = AdviseRequest::new(r("8"));
        request.now = Some(policy("lru"));
        request.frames = Some(MemorySize::frames(100));
        let mut measured = half_a_day(Some(1000), 1000, 1000);
        measured.references = Some(references);
        request.measured = Some(measured);
        Lab::new(Settings::default(), &Silent).advise(&trace, &request)
    };
    assert!(of(40_000).is_ok());
    let error = of(39_999).expect_err("another trace");
    assert_eq!(error.kind(), ErrorKind::Request);
    assert!(error.to_string().contains("39,999 references"), "{error}");
}

/// The kernel counts hundreds of times as many bytes for a process that writes pages at random, and the trace has them all.
#[test]
fn below_a_cache_the_facts_of_the_capture_change_nothing() {
    let (_directory, trace) = written("disk.spc", &below_a_cache());
    let source = paged(&trace, 4096);
    let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
    request.frames = Some(MemorySize::frames(200));
    let mut measured = half_a_day(None, 0, 12_977_180_672);
    measured.log_bytes = None;
    let without = advised(&source, &request);
    let mut with = request.clone();
    with.measured = Some(measured.clone());
    let with = advised(&source, &with);
    let json = |advice: &Advice| serde_json::to_value(advice).expect("JSON");
    assert_eq!(json(&with), json(&without));
    // Where nothing was counted, the simulation says what is written.
    let mut nothing = measured;
    nothing.process_bytes = None;
    let mut of_buffer = request;
    of_buffer.now = Some(policy("lru"));
    let without = advised(&source, &of_buffer);
    let mut with = of_buffer;
    with.measured = Some(nothing);
    assert_eq!(json(&advised(&source, &with)), json(&without));
}

mod whole {
    use super::*;

    #[test]
    fn the_memory_table_has_the_exact_figures_where_there_are_any() {
        let frames = MemorySize::frames(8000);
        let mut request = AdviseRequest::new(r("32"));
        request.now = Some(policy("clock"));
        request.frames = Some(frames.clone());
        let trace = source("zipf:pages=60000,refs=1000000,write=0.3");
        let advice = advised(&trace, &request);
        // The curve has the present policy from a sample.
        let mut curve = CurveRequest::new(PolicySelection::lists(["clock"]), "32".parse().expect("an asymmetry"));
        curve.sizes = vec![frames];
        let study = Lab::new(Settings::default(), &Silent).curve(&trace, &curve);
        let study = study.expect("a study");
        let estimate = &study.estimates[0][0];
        assert!(!estimate.sample.is_all());
        assert_ne!(study.bill(estimate.traffic), advice.now.cost);
        let then = &advice.then;
        let mut points = advice.curve.iter();
        let point = points.find(|point| point.frames == then.frames);
        let point = point.expect("the recommended size");
        assert_eq!((&point.policy, point.cost), (&then.policy, then.cost));
        assert_eq!((point.cost_now, point.error), (advice.now.cost, Some(0.0)));
    }

    #[test]
    fn the_recommendation_costs_at_most_as_much_as_now() {
        for trace in
            ["zipf:pages=2000,refs=15000,write=0.3", "scan-mix:pages=2000,refs=15000", "uniform:pages=500,refs=9000,write=0.9"]
        {
            for (ratio, now, frames) in [("1", "arc", 100), ("32", "gclock", 60), ("300", "fifo", 3)] {
                let mut request = AdviseRequest::new(r(ratio));
                request.now = Some(policy(now));
                request.frames = Some(MemorySize::frames(frames));
                let advice = advised(&source(trace), &request);
                let cost = advice.then.cost;
                assert!(cost <= advice.now.cost, "{trace} {ratio}: {advice:?}");
                assert_eq!(advice.then.cost, advice.same_memory.cost);
                // The figures are those of a run.
                let lab = Lab::new(Settings::default(), &Silent);
                for load in [&advice.now, &advice.then] {
                    let size = MemorySize::frames(load.frames);
                    let run = RunRequest::new(policy(&load.policy), size, r(ratio));
                    let run = lab.run(&source(trace), &run).expect("a run").result;
                    assert_eq!((run.reads, run.writes), (load.reads, load.writes));
                }
                // At the R from which the answer holds, and at the present one, the rival costs more.
                for it in &advice.breakevens {
                    assert!(it.holds_from.is_none_or(|from| from <= advice.asymmetry.0), "{it:?}");
                    assert!(it.holds_to.is_none_or(|to| to >= advice.asymmetry.0), "{it:?}");
                }
            }
        }
    }
}

/// A read that the kernel's cache answers takes no time of the device and is not in the bill; its policy and memory cannot save it.
#[test]
fn reads_that_the_kernels_cache_answers_are_not_the_devices() {
    let trace = paged("zipf:pages=2000,refs=20000,write=0.3", 4096);
    let of = |device_read: Option<u64>| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
        (request.now, request.frames) = (Some(policy("lru")), Some(MemorySize::frames(200)));
        request.clock = Some(AdviceClock::Rate("500/s".parse().expect("a rate")));
        let process = device_read.map_or_else(|| "null".into(), |bytes| bytes.to_string());
        let facts = format!(
            r#"{{"written": {{"seconds": 40, "page_bytes": 4096000}}, "read": {{"page_bytes": 4096000, "process_bytes": {process}}}}}"#
        );
        request.measured = Some(MeasuredWrites::from_facts(&facts).expect("facts"));
        advised(&trace, &request)
    };
    let (all, none, quarter) = (of(None), of(Some(0)), of(Some(1_024_000)));
    assert_eq!((all.cached_reads, of(Some(4_096_000)).cached_reads), (None, None));
    assert!(!kinds(&all).contains(&NoteKind::CachedReads) && kinds(&none).contains(&NoteKind::CachedReads));
    for (advice, share) in [(&none, 1.0), (&quarter, 0.75)] {
        let cached = advice.cached_reads.expect("cached reads");
        assert_eq!((cached.share, cached.reads_per_second, cached.counted), (share, 25.0, true));
        let (now, then) = (&advice.now, &all.now);
        assert_eq!((now.reads, now.writes), (then.reads, then.writes));
        close(
            Some(now.cost + 1.0),
            (1.0 - share) * now.reads_per_reference + advice.asymmetry.0 * now.writes_per_reference + 1.0,
        );
        let saved = share * now.reads_per_second.expect("reads") * 667e-6;
        close(now.busy_share, then.busy_share.expect("a share") - saved);
        close(now.life_years, then.life_years.expect("a life"));
    }
    let table = none.paragraphs().into_iter().find_map(|it| it.table).expect("a table");
    let column = table.header.iter().position(|name| name == "from the device").expect("a column");
    assert_eq!(table.rows[0][column], "0.00");
}

/// What the server counted is the present system's in every figure in time, and another system's differs from it as in the
/// simulation; at another rate all of it is as many times as much.
#[test]
fn figures_in_time_start_from_what_the_server_counted() {
    let trace = paged("zipf:pages=2000,refs=40000,write=0.3", 4096);
    let of = |facts: bool, rate: &str| {
        let mut request = AdviseRequest::new(PricingRequest::new(None, Some("sd-a1")).expect("a device"));
        (request.now, request.frames) = (Some(policy("lru")), Some(MemorySize::frames(200)));
        request.clock = Some(AdviceClock::Rate(rate.parse().expect("a rate")));
        // 80 seconds, so 500 references a second: 20 reads and 5 writes of pages.
        let text =
            r#"{"written": {"seconds": 80, "page_bytes": 1638400, "log_bytes": 819200}, "read": {"page_bytes": 6553600}}"#;
        request.measured = facts.then(|| MeasuredWrites::from_facts(text).expect("facts"));
        advised(&trace, &request)
    };
    let (simulated, counted, twice) = (of(false, "500/s"), of(true, "500/s"), of(true, "1000/s"));
    for (advice, times) in [(&counted, 1.0), (&twice, 2.0)] {
        let (now, then) = (&advice.now, &advice.then);
        close(now.reads_per_second, 20.0 * times);
        close(now.writes_per_second, 5.0 * times);
        close(now.bytes_written_per_day, times * 7.5 * 4096.0 * 86_400.0);
        let change = then.writes_per_reference / now.writes_per_reference;
        close(then.writes_per_second, 5.0 * times * change);
        close(then.bytes_written_per_day, times * (5.0 * change + 2.5) * 4096.0 * 86_400.0);
        assert!(kinds(advice).contains(&NoteKind::Counted));
        // The causes are of the same account.
        let causes: f64 = advice.life.causes.iter().filter(|it| it.included).filter_map(|it| it.bytes_per_day).sum();
        close(Some(causes), times * 5.0 * 4096.0 * 86_400.0);
    }
    close(twice.now.busy_share, 2.0 * counted.now.busy_share.expect("a share"));
    assert!(!kinds(&simulated).contains(&NoteKind::Counted) && simulated.now.writes_per_second > Some(50.0));
    assert_eq!(simulated.now.cost, counted.now.cost);
}
