//! What longer intervals between checkpoints would save.

use super::advisor::Advisor;
use super::checkpoints::{self, CheckpointCounts};
use super::clock::ArrivalRate;
use super::knobs::Knob;
use super::life::WriteCause;
use super::load::{LoadTerms, SystemLoad};
use super::notes::duration;
use super::question::{AdviceQuestion, QuestionKind};
use super::simulation::SimulatedCell;
use crate::error::LabError;
use crate::numbers::saving;

/// The checkpoint intervals to simulate, in minutes; the first is PostgreSQL's default.
const CHECKPOINT_MINUTES: [u64; 4] = [5, 15, 30, 60];

/// Checkpoints that a trace must hold before their count says anything.
const FEWEST_CHECKPOINTS: f64 = 2.0;

impl Advisor<'_> {
    /// The intervals to simulate, in minutes, at the rate at which references arrive; or why there are none.
    fn intervals(&self, rate: Option<ArrivalRate>) -> Result<(ArrivalRate, Vec<u64>), String> {
        let Some(rate) = rate else {
            return Err("the time in which the references arrived is not known".into());
        };
        if !checkpoints::can_simulate(&self.now) {
            return Err(format!(
                "checkpoints change which pages {} evicts, and the lab has no model of that",
                self.now
            ));
        }
        let seconds = rate.seconds;
        let is_covered = |minutes: &u64| seconds >= FEWEST_CHECKPOINTS * 60.0 * *minutes as f64;
        let covered: Vec<u64> = CHECKPOINT_MINUTES.into_iter().filter(is_covered).collect();
        match covered.len() {
            0 | 1 => Err(format!(
                "the trace covers {}, and two intervals of {} minutes are needed",
                duration(seconds),
                CHECKPOINT_MINUTES[1]
            )),
            _ => Ok((rate, covered)),
        }
    }

    /// What longer intervals between checkpoints would save, and what the checkpoints of the first one write.
    pub(super) fn checkpoints(
        &mut self,
        terms: &LoadTerms,
        now: &SystemLoad,
        cell: &SimulatedCell,
    ) -> Result<(Vec<Knob>, Option<WriteCause>), LabError> {
        let Some(setting) = self.server.checkpoint_setting() else {
            return Ok((Vec::new(), None));
        };
        let (rate, covered) = match self.intervals(terms.rate) {
            Ok(intervals) => intervals,
            Err(why) => {
                let why = format!("not simulated: {why}");
                return Ok((vec![Knob::without_figures(setting, &why)], None));
            }
        };
        let mut counts: Vec<(u64, CheckpointCounts)> = Vec::new();
        for minutes in covered {
            let interval = rate.references_per_second * 60.0 * minutes as f64;
            let found = checkpoints::simulate(
                self.questioner.lab,
                self.questioner.source,
                (&self.now, now.frames),
                interval as u64,
                self.facts.warmup,
            )?;
            counts.push((minutes, found));
        }
        self.questions.push(AdviceQuestion {
            about: "the interval of checkpoints",
            kind: QuestionKind::Checkpoints(rate.references_per_second),
            policies: vec![self.now.to_string()],
            frames: vec![now.frames],
            counting: self.counting.clone(),
        });
        let references = cell.result.references as f64;
        let base = counts[0].1;
        let cause = WriteCause {
            cause: format!("checkpoints every {} minutes", counts[0].0),
            writes_per_reference: base.checkpoints as f64 / references,
            bytes_per_day: terms.bytes_per_day(base.checkpoints as f64 / references),
            included: false,
        };
        let asymmetry = self.pricing.asymmetry;
        let bill = |counts: CheckpointCounts| asymmetry.bill(now.reads, counts.writes());
        let knobs = counts[1..].iter().map(|(minutes, other)| {
            let writes = other.writes() as f64 / references;
            let life = terms.life(terms.life.host_bytes(cell), writes);
            Knob {
                setting: setting.into(),
                from: Some(format!("{}min", counts[0].0)),
                to: Some(format!("{minutes}min")),
                simulated: true,
                saves_cost: saving(bill(*other), bill(base)),
                saves_reads: saving(1.0, 1.0),
                saves_writes: saving(other.writes() as f64, base.writes() as f64),
                bytes_written_per_day: terms.bytes_per_day(writes),
                life_years: life.map(|life| life.years),
                life_range_years: life.and_then(|life| life.range),
                note: Some("evictions and checkpoints; recovery takes longer".into()),
            }
        });
        Ok((knobs.collect(), Some(cause)))
    }
}
