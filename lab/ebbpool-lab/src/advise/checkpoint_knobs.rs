//! The checkpoints of the present system, and what longer intervals between them would save.

use std::time::Duration;

use ebbpool_policy::{PolicySpec, Value};

use super::advisor::Advisor;
use super::clock::{ArrivalRate, ClockSource};
use super::knobs::ServerSetting;
use super::life::WritesByCause;
use super::load::{LoadTerms, SystemLoad};
use super::notes::{AdviceNote, NoteKind, duration};
use super::simulation::SimulatedCell;
use crate::checkpoints::CheckpointSchedule;
use crate::error::LabError;
use crate::numbers::saving;

/// The checkpoint intervals to simulate, in minutes; the first is PostgreSQL's default.
const CHECKPOINT_MINUTES: [u64; 4] = [5, 15, 30, 60];

/// Checkpoints that a trace must hold before their count says anything.
const FEWEST_CHECKPOINTS: f64 = 2.0;

/// The parameters of `postgres` that cause checkpoints.
const TIMEOUT: &str = "checkpoint_timeout";
const WRITES: &str = "checkpoint_writes";

/// Divides a policy into the policy without checkpoints, and its checkpoints, which are then charged to every candidate. The
/// commits of `sqlite` stay with it, and the candidates get the same.
pub(super) fn divided(policy: PolicySpec) -> (PolicySpec, Option<CheckpointSchedule>) {
    let number = |name: &str| match policy.value(name) {
        Some(Value::Whole(number)) => std::num::NonZeroU64::new(number),
        _ => None,
    };
    let schedule = match policy.entry().name {
        "postgres" => CheckpointSchedule {
            time: number(TIMEOUT).map(|seconds| Duration::from_secs(seconds.get())),
            references: None,
            writes: number(WRITES),
        },
        "sqlite" => CheckpointSchedule { references: number("commit"), ..CheckpointSchedule::default() },
        _ => CheckpointSchedule::default(),
    };
    if schedule == CheckpointSchedule::default() {
        return (policy, None);
    }
    let without = policy.with_values(&|parameter, _| {
        let is_checkpoint = [TIMEOUT, WRITES].contains(&parameter.name);
        is_checkpoint.then_some(Value::Whole(0))
    });
    (without, Some(schedule))
}

/// The checkpoints as the lab simulates them: by the times of the trace, or at the rate of the request. Where neither is known, an
/// interval of time is left out, and a note says so.
pub(super) fn placed(
    schedule: Option<CheckpointSchedule>,
    rate: Option<ArrivalRate>,
) -> (Option<CheckpointSchedule>, Option<AdviceNote>) {
    let Some(schedule) = schedule else {
        return (None, None);
    };
    match (schedule.time, rate) {
        (None, _) => (Some(schedule), None),
        (Some(_), Some(rate)) if rate.source == ClockSource::TraceTimes => (Some(schedule), None),
        (Some(_), Some(rate)) => (Some(schedule.at_rate(rate.references_per_second)), None),
        (Some(_), None) => {
            let without = CheckpointSchedule { time: None, ..schedule };
            let note = AdviceNote::new(
                NoteKind::Checkpoints,
                format!(
                    "checkpoints ({schedule}) are not simulated, because the time in which the references arrived is not known"
                ),
            );
            let left = Some(without).filter(|it| *it != CheckpointSchedule::default());
            (left, Some(note))
        }
    }
}

impl Advisor<'_> {
    /// The intervals to simulate at the rate at which references arrive, with the present one first; or why there are none.
    fn intervals(&self, rate: Option<ArrivalRate>) -> Result<(ArrivalRate, Vec<Duration>), String> {
        let Some(rate) = rate else {
            return Err("the time in which the references arrived is not known".into());
        };
        let minutes = CHECKPOINT_MINUTES.map(|minutes| Duration::from_secs(60 * minutes));
        let present = self.schedule.and_then(|schedule| schedule.time);
        let present = present.unwrap_or(minutes[0]);
        let is_covered = |interval: &Duration| rate.seconds >= FEWEST_CHECKPOINTS * interval.as_secs_f64();
        let longer = minutes.into_iter().filter(|interval| *interval > present);
        let intervals: Vec<Duration> = std::iter::once(present).chain(longer).collect();
        let covered: Vec<Duration> = intervals.iter().copied().filter(is_covered).collect();
        match (covered.len(), intervals.get(1)) {
            (0 | 1, Some(next)) => Err(format!(
                "the trace covers {}, and two intervals of {} minutes, the next above {}, are needed",
                duration(rate.seconds),
                next.as_secs() / 60,
                duration(present.as_secs_f64())
            )),
            (0 | 1, None) => Err(format!("there is none above {}", CheckpointSchedule::every(present))),
            _ => Ok((rate, covered)),
        }
    }

    /// The present system with checkpoints at each of these intervals.
    fn at_intervals(&mut self, rate: ArrivalRate, intervals: &[Duration], frames: u64) -> Result<Vec<SimulatedCell>, LabError> {
        let mut cells = Vec::new();
        for &interval in intervals {
            let schedule = CheckpointSchedule { time: Some(interval), ..self.schedule.unwrap_or_default() };
            let policies = vec![self.now.to_string()];
            let mut question = self.compare("the interval of checkpoints", policies, vec![frames]);
            question.counting.checkpoints = placed(Some(schedule), Some(rate)).0;
            cells.extend(self.questioner.compare(&question)?);
            self.questions.push(question);
        }
        Ok(cells)
    }

    /// What longer intervals between checkpoints would save, and what those of the server's default write if none are counted.
    pub(super) fn checkpoints(
        &mut self,
        terms: &LoadTerms,
        now: &SystemLoad,
    ) -> Result<(Vec<ServerSetting>, Option<WritesByCause>), LabError> {
        let Some(setting) = self.server.checkpoint_setting() else {
            return Ok((Vec::new(), None));
        };
        let (rate, covered) = match self.intervals(terms.rate) {
            Ok(intervals) => intervals,
            Err(why) => {
                let why = format!("not simulated: {why}");
                return Ok((vec![ServerSetting::without_figures(setting, &why)], None));
            }
        };
        let cells = self.at_intervals(rate, &covered, now.frames)?;
        // What was measured has the server's checkpoints, whether or not the simulation of the present system has them.
        let is_counted = self.counting.checkpoints.is_some();
        let base = cells.first().filter(|_| !is_counted);
        let writes = |cell: &SimulatedCell| cell.result.writes as f64 / cell.result.references as f64;
        let at_base = base.map(|cell| terms.measured_at(writes(cell)));
        let terms = at_base.as_ref().unwrap_or(terms);
        // Without both, a life has checkpoints here and none in the present system's: the two say nothing side by side.
        let has_life = is_counted || terms.measured.is_some();
        let loads: Vec<SystemLoad> = cells.iter().map(|cell| terms.load(cell)).collect();
        let Some((base, others)) = loads.split_first() else {
            return Ok((Vec::new(), None));
        };
        let spelled = |interval: Duration| CheckpointSchedule::every(interval).to_string();
        let writes_per_reference = base.checkpoint_writes as f64 / base.references.max(1) as f64;
        let cause = WritesByCause {
            cause: format!("checkpoints every {}", spelled(covered[0])),
            writes_per_reference,
            bytes_per_day: terms.bytes_of_pages(writes_per_reference),
            included: false,
        };
        let knobs = others.iter().zip(&covered[1..]).map(|(other, interval)| ServerSetting {
            setting: setting.into(),
            from: Some(spelled(covered[0])),
            to: Some(spelled(*interval)),
            simulated: true,
            saves_cost: saving(other.cost, base.cost),
            saves_reads: saving(other.reads as f64, base.reads as f64),
            saves_writes: saving(other.writes as f64, base.writes as f64),
            bytes_written_per_day: other.bytes_written_per_day,
            life_years: other.life_years.filter(|_| has_life),
            life_range_years: other.life_range_years.filter(|_| has_life),
            dollars_per_month: other.dollars_per_month,
            note: Some("evictions and checkpoints; recovery takes longer".into()),
        });
        Ok((knobs.collect(), Some(cause).filter(|_| !is_counted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(policy: &str) -> (String, String) {
        let (without, schedule) = divided(policy.parse().expect("a policy"));
        let schedule = schedule.map_or_else(String::new, |schedule| schedule.to_string());
        (without.to_string(), schedule)
    }

    #[test]
    fn the_checkpoints_of_a_server_are_charged_to_all() {
        let of = |policy: &str, schedule: &str| (policy.to_string(), schedule.to_string());
        assert_eq!(
            parts("postgres:bgwriter_delay=50,checkpoint_timeout=30,checkpoint_writes=900"),
            of("postgres:bgwriter_delay=50", "30s,writes=900")
        );
        assert_eq!(parts("postgres"), of("postgres", ""));
        // Its commits clean pages in an order of their own.
        assert_eq!(parts("sqlite:commit=70"), of("sqlite:commit=70", "70"));
        assert_eq!(parts("lru"), of("lru", ""));
    }
}
