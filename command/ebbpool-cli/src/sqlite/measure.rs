//! `ebbpool sqlite measure`: what the VFS would save a program that runs.

mod report;

use std::cell::OnceCell;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ebbpool_lab::schema::ResultSchema;
use ebbpool_sqlite::Options;
use ebbpool_sqlite::measure::{CommitWatch, PageGrowth, WindowModel};

use super::args::SqliteMeasureArgs;
use super::card::card_of;
use super::error::SqliteError;
use super::{counted, named, print};
use crate::progress::STOP;
use crate::progress::line::LiveLine;
use report::SqliteMeasurement;

/// The windows in seconds for which the answer is given.
const WINDOWS: [f64; 5] = [0.0, 1.0, 5.0, 30.0, 300.0];
/// The time between two looks at the files.
const PAUSE: Duration = Duration::from_millis(50);
/// A pause lasts at least as long as this many looks, so that looking takes at most a fifth of a core.
const REST: u32 = 4;
/// A look that lasts longer than this after Ctrl-C is given up.
const GRACE: Duration = Duration::from_secs(1);
/// Without a terminal there is a line in this time.
const EVERY: Duration = Duration::from_secs(60);

pub(super) fn schema() -> ResultSchema {
    report::schema()
}

/// What was seen.
struct Watched {
    watch: CommitWatch,
    models: Vec<WindowModel>,
    growth: PageGrowth,
    commits: u64,
    /// Commits that were seen one by one, or several as one.
    looks: u64,
    seconds: f64,
    /// True if the last look was given up.
    is_cut: bool,
}

pub(super) fn measure(args: &SqliteMeasureArgs) -> Result<(), SqliteError> {
    let card = card_of(&args.card)?;
    let watched = watch(args)?;
    // Ctrl-C ends the watch, and not what follows.
    STOP.store(false, Ordering::Relaxed);
    let refused = watched.watch.refused_images();
    if refused > 0 {
        say(&format!(
            "--memory has no room for the content of {}, which count as written whole: with more of it the VFS saves more than this",
            counted(refused, "changed page")
        ));
    }
    let missed = watched.watch.missed();
    if missed > 0 {
        say(&format!(
            "{} commits were brought in place that no look had seen, because the last connection was closed at once; they do not count",
            match missed {
                1 => "once".to_owned(),
                missed => format!("{missed} times"),
            }
        ));
    }
    let measurement = SqliteMeasurement::new(watched, &card);
    print(&measurement, args.format, |it| it.to_text(&card))
}

/// Says something on standard error; the command does not fail because nothing takes it.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

fn watch(args: &SqliteMeasureArgs) -> Result<Watched, SqliteError> {
    let reading = SqliteError::reading(&args.path);
    let interrupted = OnceCell::new();
    let is_over = || STOP.load(Ordering::Relaxed) && interrupted.get_or_init(Instant::now).elapsed() > GRACE;
    let path = named(&args.path)?;
    let watch = CommitWatch::open(&path, args.memory.bytes(), &is_over).map_err(&reading)?;
    let models = WINDOWS.map(|window| WindowModel::new(Options { window, ..Options::default() }));
    let mut watched = Watched {
        watch,
        models: models.into(),
        growth: PageGrowth::default(),
        commits: 0,
        looks: 0,
        seconds: 0.0,
        is_cut: false,
    };
    let begin = Instant::now();
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    let mut line = WatchLine::new();
    while begin.elapsed() < length && !STOP.load(Ordering::Relaxed) {
        let looked = Instant::now();
        watched.refresh(begin, &is_over).map_err(&reading)?;
        line.show(&watched, length);
        let pause = PAUSE.max(looked.elapsed() * REST);
        let end = Instant::now() + pause.min(length.saturating_sub(begin.elapsed()));
        while !STOP.load(Ordering::Relaxed) && Instant::now() < end {
            std::thread::sleep(PAUSE.min(end.saturating_duration_since(Instant::now())));
        }
    }
    watched.refresh(begin, &is_over).map_err(&reading)?;
    watched.watch.refuse_owner(&is_over).map_err(&reading)?;
    line.clear();
    if watched.is_cut {
        say("the last look was given up at Ctrl-C; commits after the one before do not count");
    } else {
        watched.seconds = begin.elapsed().as_secs_f64();
    }
    Ok(watched)
}

impl Watched {
    fn refresh(&mut self, begin: Instant, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        let commits = match self.watch.poll(is_over) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.is_cut = true;
                return Ok(());
            }
            other => other?,
        };
        let now = begin.elapsed().as_secs_f64();
        self.seconds = now;
        for commit in &commits {
            self.commits += commit.commits;
            self.looks += 1;
            self.growth.commit(now, commit);
            for model in &mut self.models {
                model.commit(now, commit);
            }
        }
        self.models.iter_mut().for_each(|model| model.proceed(now));
        Ok(())
    }
}

/// The progress: on a terminal one line that is written over itself, else a line every minute.
struct WatchLine {
    live: Option<LiveLine>,
    printed: f64,
}

impl WatchLine {
    fn new() -> WatchLine {
        WatchLine { live: io::stderr().is_terminal().then(LiveLine::new).flatten(), printed: 0.0 }
    }

    fn show(&mut self, watched: &Watched, length: Duration) {
        let written = watched.watch.written();
        let commits = counted(watched.commits, "commit");
        let text = format!("{commits}, {}", counted(watched.growth.pages(), "page"));
        match &mut self.live {
            Some(live) => {
                let share = watched.seconds / length.as_secs_f64();
                live.show("measure", share, &format!(", {text}"));
            }
            None if watched.seconds - self.printed >= EVERY.as_secs_f64() => {
                self.printed = watched.seconds;
                let bytes = ebbpool_cost::ByteSize::new(written.log + written.in_place);
                say(&format!("after {:.0} s: {text}, {bytes} written", watched.seconds));
            }
            None => {}
        }
    }

    fn clear(&self) {
        if let Some(live) = &self.live {
            live.clear();
        }
    }
}
