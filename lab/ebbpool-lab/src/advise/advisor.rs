//! The course of an advice: from a request to its answer.

use std::time::Duration;

use ebbpool_cost::{Asymmetry, Unit};
use ebbpool_policy::PolicySpec;
use ebbpool_sim::{AtEnd, DeviceAtStart, SimPolicy};
use ebbpool_trace::{Metadata, Source};

use super::assumptions::{assumed, budget, present};
use super::breakeven::{BreakEvenSearch, break_evens};
use super::cached::CachedReads;
use super::checkpoint_knobs::{divided, placed};
use super::clock::ArrivalRate;
use super::knobs;
use super::life::{ComparedLoads, LifeAnswer, LifeBasis};
use super::load::{CountedShare, LoadTerms, MeasuredTerms, MoneyTerms, SystemLoad, life_of};
use super::measured::MeasuredWrites;
use super::notes::{AdviceNote, NoteKind, WarningFacts, duration};
use super::question::{AdviceQuestion, QuestionKind};
use super::request::{AdviceClock, AdviseRequest};
use super::server::ServerKind;
use super::simulation::{AdviceEvents, SimulatedCell, TraceQuestions};
use super::{Advice, CANDIDATES, MemoryChoice, MemoryPoint, sizes, uncached};
use crate::checkpoints::CheckpointSchedule;
use crate::curve::CurveStudy;
use crate::device_life::{DeviceLife, OwedWrites};
use crate::error::AdviseError;
use crate::error::{LabError, RequestError};
use crate::knee::{self, WORTH_DOUBLING};
use crate::lab::Lab;
use crate::memory_size::MemorySize;
use crate::numbers::{Number, saving};
use crate::pricing::{Pricing, PricingRequest};
use crate::run::CountingRules;

/// Simulated references up to which all curves are exact: about a second's work of two cores.
const EXACT_STEPS: u64 = 20_000_000;

/// How many of the policies that are best by the curves are run over the whole trace.
const FINALISTS: usize = 3;

/// What is known before anything is simulated.
pub(super) struct Advisor<'a> {
    pub(super) questioner: TraceQuestions<'a>,
    request: &'a AdviseRequest,
    pricing_request: PricingRequest,
    pub(super) pricing: Pricing,
    metadata: Metadata,
    pub(super) server: ServerKind,
    pub(super) now: PolicySpec,
    candidates: Vec<PolicySpec>,
    /// The checkpoints of the present system, which every candidate has, as the request or its policy says.
    pub(super) schedule: Option<CheckpointSchedule>,
    pub(super) counting: CountingRules,
    /// LRU at every size, the facts of the trace, and the present size of the buffer.
    pub(super) facts: CurveStudy,
    present: u64,
    budget: Option<u64>,
    /// No buffer is there now: the trace was recorded below a cache.
    uncached: bool,
    /// What was written while the trace was captured, unless nothing was counted. A trace from below a cache has all writes itself,
    /// and the kernel's count of a process may be hundreds of times as many.
    measured: Option<&'a MeasuredWrites>,
    /// The checkpoints that are simulated, as `schedule` spells them.
    simulated: Option<CheckpointSchedule>,
    /// How fast references arrive, unless the writes of a day say it.
    rate: Option<ArrivalRate>,
    /// How fast they arrived while the trace was recorded.
    recorded: Option<ArrivalRate>,
    /// The reads that the kernel's cache answered.
    cached: Option<CachedReads>,
    assumptions: Vec<AdviceNote>,
    pub(super) questions: Vec<AdviceQuestion>,
}

/// The systems that are run over the whole trace.
struct SimulatedSystems {
    now: SimulatedCell,
    same_memory: SimulatedCell,
    then: SimulatedCell,
    /// The best policy with the recommended memory, also if the server cannot have it.
    best: SimulatedCell,
    /// The recommended policy with twice the recommended memory.
    larger: Option<SimulatedCell>,
    /// The present policy, and the best of the others, with the recommended memory.
    rivals: Vec<SimulatedCell>,
    /// The present policy with twice and four times the present memory.
    knobs: Vec<SimulatedCell>,
    /// All that served the present, the recommended and the doubled memory: the present policy and the finalists.
    exact: Vec<SimulatedCell>,
}

impl<'a> Advisor<'a> {
    pub(super) fn new(
        lab: &'a Lab<'a>,
        source: &'a Source,
        request: &'a AdviseRequest,
        events: &'a AdviceEvents<'a>,
    ) -> Result<Self, LabError> {
        let metadata = source.open()?.metadata().clone();
        let pricing_request = request.pricing.clone().unwrap_or_default();
        let pricing = lab.pricing(&pricing_request, source, &metadata)?;
        let name = metadata.name.as_deref().unwrap_or_default();
        let uncached = uncached::is_uncached(request, &metadata);
        let server = request.server.unwrap_or_else(|| match uncached {
            true => ServerKind::Other,
            false => server_of(name, source),
        });
        let now = request.now.clone().map_or_else(|| server.policy().parse(), Ok);
        let now = now.map_err(RequestError::from)?;
        let (now, own) = divided(pricing.capabilities.supported(now)?);
        let schedule = request.counting.checkpoints.or(own);
        let candidates = candidates(&now, &pricing)?;
        let budget = budget(request, &metadata)?;
        let present = present(request, server, &metadata, budget)?;
        let costs = pricing.device.as_ref().map(DeviceAtStart::costs);
        let read_us = costs.filter(|costs| costs.unit == Unit::Microseconds).map(|costs| costs.read);
        let questioner = TraceQuestions { lab, source, events, device_share: 1.0, read_us };
        let mut counting = CountingRules { rate: None, checkpoints: None, ..request.counting.clone() };
        let facts = questioner.facts(present.clone(), pricing.asymmetry, &counting)?;
        let measured = request.measured.as_ref();
        let checked = measured.map(|it| it.check(facts.facts.references, source.options()));
        checked.transpose().map_err(RequestError::from)?;
        let measured = measured.filter(|it| it.is_counted() && !uncached);
        let recorded = source.recorded_arrivals(facts.warmup)?;
        let rate = ArrivalRate::stated(request.clock, recorded, facts.facts.references);
        let of_capture = || measured.map(|it| AdviceClock::Duration(Duration::from_secs_f64(it.seconds)));
        let clock = if recorded.is_none() { of_capture() } else { None };
        let recorded = ArrivalRate::stated(clock, recorded, facts.facts.references);
        let (placed, left_out) = placed(schedule, rate);
        counting.checkpoints = placed;
        let simulated = left_out.as_ref().map_or(schedule, |_| placed);
        if pricing.device.is_some() {
            counting.rate = rate.and_then(|it| it.as_option().parse().ok());
        }
        let present = facts.sizes.first().copied().unwrap_or(1);
        let present = uncached::usual_frames(request, &metadata, &facts).unwrap_or(present);
        let mut assumptions: Vec<AdviceNote> = left_out.into_iter().collect();
        assumptions.extend(match uncached {
            true => uncached::assumed(request),
            false => assumed(request, server, &now, present, budget, &metadata),
        });
        Ok(Advisor {
            questioner,
            request,
            pricing_request,
            pricing,
            metadata,
            server,
            now,
            candidates,
            schedule,
            counting,
            facts,
            present,
            budget,
            uncached,
            measured,
            simulated,
            rate,
            recorded,
            cached: None,
            assumptions,
            questions: Vec::new(),
        })
    }

    /// The answer.
    pub(super) fn advice(mut self) -> Result<Advice, LabError> {
        let study = self.curves()?;
        self.cached = self.cached_reads(&study);
        self.questioner.device_share = self.cached.map_or(1.0, |cached| 1.0 - cached.share);
        let bills = self.bills(&study);
        let knee = knee::knee(&bills, self.metadata.page_size, self.facts.facts.distinct_pages);
        let cheapest = self.cheapest(&study)?;
        let worth = cheapest.or(knee.as_ref().map(|knee| knee.frames));
        let recommended = self.recommended_frames(worth, cheapest.is_some(), &bills);
        let systems = self.systems(&study, recommended)?;
        let rivals: Vec<&SimulatedCell> = systems.rivals.iter().collect();
        let contest = BreakEvenSearch {
            best: &systems.best,
            rivals: &rivals,
            asymmetry: self.pricing.asymmetry,
            counting: &self.counting,
        };
        let (breakevens, asked) = break_evens(&self.questioner, &contest)?;
        self.questions.extend(asked);
        let terms = self.terms(systems.now.per_reference())?;
        let now = terms.present_load(&systems.now);
        let then = terms.load(&systems.then);
        let curve = self.points(&study, &terms, &systems);
        let (checkpoint_knobs, cause) = self.checkpoints(&terms, &now)?;
        let larger: Vec<SystemLoad> = systems.knobs.iter().map(|cell| terms.load(cell)).collect();
        let mut life = LifeAnswer::new(
            &terms,
            self.request.life,
            ComparedLoads {
                now: &now,
                then: &then,
                then_cell: &systems.then,
                larger: systems.larger.as_ref().map(|cell| terms.load(cell)),
                curve: &curve,
                checkpoints: cause,
                not_counted: self.not_counted(&now),
                measured: self.measured,
            },
        );
        let page_size = self.metadata.page_size;
        let mut knobs = knobs::of_server(self.server, page_size, &now, &larger, checkpoint_knobs);
        if self.uncached {
            life.causes = uncached::causes(&terms, &now);
            knobs.clear();
        }
        let monthly = terms.monthly([now.reads_per_reference, now.writes_per_reference], now.frames);
        let mut dollars_without = monthly.map_or_else(Vec::new, |cost| cost.without);
        let has_device = self.pricing.tariff.is_some() && terms.rate.is_some();
        if !dollars_without.is_empty() && !self.uncached && has_device {
            let others = std::iter::once("the log and other files").chain(life.not_counted.iter().map(String::as_str));
            for other in others {
                if !dollars_without.iter().any(|it| it == other) {
                    dollars_without.push(other.into());
                }
            }
        }
        let breakeven = breakevens.iter().filter_map(|it| it.holds_from);
        Ok(Advice {
            trace: self.questioner.source.label().into(),
            server: self.server,
            references: now.references,
            warmup: self.facts.warmup,
            distinct_pages: self.facts.facts.distinct_pages,
            page_size,
            device: self.pricing.device_name.clone(),
            asymmetry: Number(self.pricing.asymmetry.ratio()),
            arrivals: terms.rate,
            cached_reads: self.cached,
            checkpoints: self.simulated.map(|schedule| schedule.to_string()),
            recommendation: MemoryChoice { policy: then.policy.clone(), frames: then.frames, bytes: then.bytes },
            saves: saving(then.cost, now.cost),
            asymmetry_breakeven: breakeven.reduce(f64::max).map(Number),
            warnings: self.warnings(&terms, &now, &then, &life, &systems),
            same_memory: terms.load(&systems.same_memory),
            uncached: self.uncached,
            keeps_policy: self.keeps_policy(),
            other_policy: (systems.best.result.policy != then.policy).then(|| terms.load(&systems.best)),
            now,
            then,
            cheapest_frames: cheapest.and_then(|_| cheapest_of(&curve)),
            curve,
            knee,
            breakevens,
            life,
            knobs,
            dollars_without,
            assumptions: self.assumptions,
            questions: self.questions,
        })
    }

    /// The bills of all candidates against memory.
    fn curves(&mut self) -> Result<CurveStudy, LabError> {
        let frames = sizes::grid(self.present, self.budget, self.facts.facts.distinct_pages);
        let cells = (frames.len() * self.candidates.len()) as u64;
        let steps = self.facts.facts.references.saturating_mul(cells);
        let question = AdviceQuestion {
            about: "the bill against memory",
            kind: QuestionKind::Curve(self.pricing.asymmetry, (steps <= EXACT_STEPS).then_some(1.0)),
            policies: self.candidates.iter().map(ToString::to_string).collect(),
            frames,
            counting: CountingRules { rate: None, ..self.counting.clone() },
        };
        let study = self.questioner.curve(&question)?;
        self.questions.push(question);
        Ok(study)
    }

    /// The bill at each size: the smallest one, of a server that keeps its policy its own.
    fn bills(&self, study: &CurveStudy) -> Vec<(u64, f64)> {
        let now = self.now.to_string();
        let least = |size: usize| {
            let all = study.policies.iter().zip(&study.estimates);
            let all = all.filter(|(policy, _)| !self.keeps_policy() || policy.to_string() == now);
            let estimates = all.filter_map(|(_, estimates)| estimates.get(size));
            let bills = estimates.map(|estimate| self.questioner.bill(study, estimate.traffic));
            bills.fold(f64::INFINITY, f64::min)
        };
        let sizes = study.sizes.iter().enumerate();
        sizes.map(|(size, &frames)| (frames, least(size))).collect()
    }

    /// The reads that the kernel's cache answered, if the capture shows it.
    fn cached_reads(&self, study: &CurveStudy) -> Option<CachedReads> {
        let measured = self.request.measured.as_ref().filter(|_| !self.uncached)?;
        let now = self.now.to_string();
        let policy = study.policies.iter().position(|policy| policy.to_string() == now)?;
        let size = study.sizes.iter().position(|&frames| frames == self.present)?;
        let reads = study.estimates.get(policy)?.get(size)?.traffic.all_reads();
        CachedReads::new(measured, reads, self.metadata.page_size)
    }

    /// The size with the least $ a month, if the request has a price for memory, and the device has one, too.
    fn cheapest(&self, study: &CurveStudy) -> Result<Option<u64>, LabError> {
        let is_priced = self.request.memory_price.is_some() && self.pricing.tariff.is_some();
        let (now, references) = (self.now.to_string(), study.lru.references() as f64);
        // The present policy's, or those of the best one, in page reads and writes per reference.
        let of_size = |size: usize, of_present: bool| {
            let all = study.policies.iter().zip(&study.estimates);
            let all = all.filter(|(policy, _)| !of_present || policy.to_string() == now);
            let traffic = all.filter_map(|(_, estimates)| Some(estimates.get(size)?.traffic));
            let best = traffic.min_by(|a, b| self.questioner.bill(study, *a).total_cmp(&self.questioner.bill(study, *b)));
            best.map(|traffic| [traffic.all_reads() as f64 / references, traffic.writes as f64 / references])
        };
        let present = study.sizes.iter().position(|&frames| frames == self.present);
        let Some(present) = present.filter(|_| is_priced).and_then(|size| of_size(size, true)) else {
            return Ok(None);
        };
        let terms = self.terms(present)?;
        if terms.rate.is_none() {
            return Ok(None);
        }
        let sizes = study.sizes.iter().enumerate();
        let priced = sizes.filter_map(|(size, &frames)| {
            let cost = terms.monthly(of_size(size, self.keeps_policy())?, frames)?;
            Some((frames, cost.total))
        });
        Ok(priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(frames, _)| frames))
    }

    /// The memory to recommend: without a budget the present one, or the knee where no buffer is there and no size is
    /// asked for; else as much as is worth while, at least the present memory and at most the budget. A server that has settings
    /// for its memory only gets one of these if it pays: without a budget up to four times the present memory.
    /// `worth` is the size from which on more is not worth while, by $ where these are known.
    fn recommended_frames(&self, worth: Option<u64>, by_dollars: bool, bills: &[(u64, f64)]) -> u64 {
        let distinct = self.facts.facts.distinct_pages;
        let frames = match self.budget {
            Some(budget) => {
                let largest = budget.min(distinct.max(1));
                let worth = worth.unwrap_or(largest).min(largest);
                // A smaller one may cost less only in $.
                if by_dollars { worth } else { worth.max(self.present.min(budget)) }
            }
            None if self.keeps_policy() => {
                let is_worth = |frames: &u64| *frames <= worth.unwrap_or(u64::MAX);
                self.larger_frames().into_iter().rfind(is_worth).unwrap_or(self.present)
            }
            None => worth.filter(|_| self.uncached && self.request.frames.is_none()).unwrap_or(self.present),
        };
        let bill_at = |frames: u64| bills.iter().find(|(size, _)| *size == frames).map(|(_, bill)| *bill);
        let saved = bill_at(frames).zip(bill_at(self.present)).and_then(|(then, now)| saving(then, now));
        match self.keeps_policy() && !by_dollars && frames > self.present && saved < Some(100.0 * WORTH_DOUBLING) {
            true => self.present,
            false => frames,
        }
    }

    /// True if the present policy is the server's own: it has settings for the memory, and none for another policy.
    fn keeps_policy(&self) -> bool {
        !self.uncached && self.server.name().is_some() && self.now.entry().name == self.server.policy()
    }

    /// Runs the present system, the best policies by the curves, and larger buffers over the whole trace.
    fn systems(&mut self, study: &CurveStudy, recommended: u64) -> Result<SimulatedSystems, LabError> {
        let distinct = self.facts.facts.distinct_pages;
        let doubled = recommended.saturating_mul(2).min(distinct);
        let mut frames = vec![self.present, recommended];
        frames.extend(Some(doubled).filter(|&frames| frames > recommended));
        frames.sort_unstable();
        frames.dedup();
        let question = self.compare("now and then", self.finalists(study, recommended), frames);
        let cells = self.questioner.compare(&question)?;
        self.questions.push(question);
        let at = |frames: u64| {
            let served = cells.iter().filter(|cell| cell.result.failed.is_none());
            served.filter(move |cell| cell.result.frames == frames)
        };
        let now = self.now.to_string();
        // The present policy comes first, so that it stays where another one is not better.
        let best = |frames: u64| at(frames).min_by(|a, b| a.result.cost.total_cmp(&b.result.cost));
        let under = |policy: &str, frames: u64| at(frames).find(|it| it.result.policy == policy);
        let failed = || -> LabError {
            let text = cells.iter().find_map(|cell| cell.device.as_ref()?.failed.clone());
            let text = text.unwrap_or_else(|| "it served no run to its end".into());
            RequestError::from(AdviseError::DeviceFailed(text)).into()
        };
        let best = best(recommended).ok_or_else(failed)?;
        let then = if self.keeps_policy() { under(&now, recommended) } else { Some(best) }.ok_or_else(failed)?;
        let policy = then.result.policy.as_str();
        let second = at(recommended)
            .filter(|cell| cell.result.policy != best.result.policy && cell.result.policy != now)
            .min_by(|a, b| a.result.cost.total_cmp(&b.result.cost));
        let present = under(&now, recommended).filter(|_| best.result.policy != now);
        let systems = SimulatedSystems {
            now: self.present_system(under(&now, self.present).ok_or_else(failed)?)?,
            same_memory: under(policy, self.present).ok_or_else(failed)?.clone(),
            larger: under(policy, doubled).filter(|_| doubled > recommended).cloned(),
            rivals: present.into_iter().chain(second).cloned().collect(),
            then: then.clone(),
            best: best.clone(),
            knobs: Vec::new(),
            exact: Vec::new(),
        };
        Ok(SimulatedSystems {
            knobs: self.larger_buffers()?,
            exact: cells.into_iter().filter(|cell| cell.result.failed.is_none()).collect(),
            ..systems
        })
    }

    /// The present system: the run of its policy, or the device without a cache.
    fn present_system(&self, run: &SimulatedCell) -> Result<SimulatedCell, LabError> {
        let (facts, pricing) = (&self.facts, &self.pricing);
        match self.uncached {
            true => uncached::cell(&self.questioner, facts, pricing, &self.metadata),
            false => Ok(run.clone()),
        }
    }

    /// Twice and four times the present memory, as far as these do not hold all pages of the trace: nothing would be evicted then.
    fn larger_frames(&self) -> Vec<u64> {
        let larger = [2u64, 4].map(|times| self.present.saturating_mul(times));
        let distinct = self.facts.facts.distinct_pages;
        larger.into_iter().filter(|&frames| frames < distinct && !self.uncached).collect()
    }

    /// The present policy with more memory.
    fn larger_buffers(&mut self) -> Result<Vec<SimulatedCell>, LabError> {
        let frames = self.larger_frames();
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        let question = self.compare("a larger buffer", vec![self.now.to_string()], frames);
        let cells = self.questioner.compare(&question)?;
        self.questions.push(question);
        Ok(cells.into_iter().filter(|cell| cell.result.failed.is_none()).collect())
    }

    pub(super) fn compare(&self, about: &'static str, policies: Vec<String>, frames: Vec<u64>) -> AdviceQuestion {
        AdviceQuestion {
            about,
            kind: QuestionKind::Compare(vec![self.pricing_request.clone()]),
            policies,
            frames,
            counting: self.counting.clone(),
        }
    }

    /// The present policy, those that are best by the curves with the recommended memory, and the best one with the present
    /// memory: the advice has that size's exact counts, and another one there might hide it.
    fn finalists(&self, study: &CurveStudy, recommended: u64) -> Vec<String> {
        let mut finalists = vec![self.now.to_string()];
        for (frames, most) in [(recommended, FINALISTS), (self.present, 1)] {
            for policy in self.best_by_curves(study, frames).into_iter().take(most) {
                if !finalists.contains(&policy) {
                    finalists.push(policy);
                }
            }
        }
        finalists
    }

    /// The policies other than the present one, the least bill by the curves first.
    fn best_by_curves(&self, study: &CurveStudy, frames: u64) -> Vec<String> {
        let nearest = study.sizes.iter().enumerate().min_by_key(|(_, size)| size.abs_diff(frames));
        let size = nearest.map_or(0, |(size, _)| size);
        let bill = |estimates: &Vec<_>| {
            let estimate: Option<&ebbpool_sim::Estimate> = estimates.get(size);
            estimate.map_or(f64::INFINITY, |estimate| self.questioner.bill(study, estimate.traffic))
        };
        let bills = study.policies.iter().zip(study.estimates.iter().map(bill));
        let mut bills: Vec<(&SimPolicy, f64)> = bills.collect();
        bills.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let now = self.now.to_string();
        let best = bills.iter().map(|(policy, _)| policy.to_string());
        best.filter(|policy| *policy != now).collect()
    }

    /// What turns counts into figures in time. Daily writes are those of the present system.
    fn terms(&self, [reads, writes]: [f64; 2]) -> Result<LoadTerms, LabError> {
        let page_size = self.metadata.page_size;
        let references = self.facts.facts.references;
        let counted = self.counted([reads, writes]);
        let daily = ArrivalRate::of_daily_writes(self.request.clock, counted.writes * writes, (page_size, references));
        let daily = daily.map_err(RequestError::from)?;
        let rate = daily.or(self.rate);
        // At another rate as many times as much is written.
        let times = match rate.zip(self.recorded) {
            Some((rate, recorded)) if self.request.clock.is_some() => {
                rate.references_per_second / recorded.references_per_second
            }
            _ => 1.0,
        };
        let measured = self.measured.map(|measured| MeasuredTerms::new(&measured.per_day().times(times), writes));
        Ok(LoadTerms {
            rate,
            page_size,
            life: LifeBasis::for_pricing(&self.pricing),
            measured,
            counted,
            money: MoneyTerms {
                tariff: self.pricing.tariff.clone(),
                memory_price: self.request.memory_price,
                stored_bytes: self.metadata.database_pages.zip(page_size).map(|(pages, size)| pages.saturating_mul(size)),
                device_share: self.questioner.device_share,
            },
        })
    }

    /// What the server counted of its reads and writes, beside what the simulation has of them per reference.
    fn counted(&self, per_reference: [f64; 2]) -> CountedShare {
        let (Some(measured), Some(recorded), Some(page_size)) = (self.measured, self.recorded, self.metadata.page_size) else {
            return CountedShare::ALL;
        };
        let per_second = |bytes: u64| bytes as f64 / page_size as f64 / measured.seconds;
        let counted = [measured.counted_reads(page_size), measured.page_bytes];
        CountedShare::new(counted.map(|bytes| bytes.map(per_second)), per_reference.map(|pages| recorded.per_second(pages)))
    }

    /// What the bytes of the present system leave out, in words.
    fn not_counted(&self, now: &SystemLoad) -> Vec<String> {
        if self.uncached {
            // A trace from below a cache has all writes of the device.
            return Vec::new();
        }
        let mut causes = match self.measured {
            Some(measured) => measured.not_counted(),
            None => vec!["the log and other files".into()],
        };
        let interval = self.schedule.and_then(|schedule| schedule.time);
        let has_checkpoints = self.server.checkpoint_setting().is_some() || interval.is_some();
        let seconds = self.measured.map(|measured| measured.seconds);
        match (interval, seconds) {
            (Some(interval), Some(seconds)) if interval.as_secs_f64() > seconds => {
                causes.push(format!(
                    "checkpoints, since one every {} takes longer than the capture of {}",
                    CheckpointSchedule::every(interval),
                    duration(seconds)
                ));
            }
            (Some(_), Some(_)) => {}
            (_, None) if self.counting.checkpoints.is_some() => {}
            _ if has_checkpoints => causes.push("checkpoints".into()),
            _ => {}
        }
        if seconds.is_none() && now.dirty_left > 0 {
            causes.push("pages still dirty at the end".into());
        }
        causes
    }

    /// The point of a size at which policies ran over the whole trace; `None` if none did, or on a simulated device, whose
    /// bills have its cleaning.
    fn exact_point(&self, frames: u64, terms: &LoadTerms, exact: &[SimulatedCell]) -> Option<MemoryPoint> {
        if matches!(terms.life, LifeBasis::Simulated) {
            return None;
        }
        let cells = || exact.iter().filter(|cell| cell.result.frames == frames);
        let best = cells().min_by(|a, b| a.result.cost.total_cmp(&b.result.cost))?;
        let now = self.now.to_string();
        let now = cells().find(|cell| cell.result.policy == now)?;
        let load = terms.load(if self.keeps_policy() { now } else { best });
        Some(MemoryPoint {
            frames,
            bytes: load.bytes,
            policy: load.policy,
            cost: load.cost,
            best_policy: best.result.policy.clone(),
            best_cost: best.result.cost,
            error: Some(0.0),
            cost_now: now.result.cost,
            reads_per_reference: load.reads_per_reference,
            writes_per_reference: load.writes_per_reference,
            bytes_written_per_day: load.bytes_written_per_day,
            life_years: load.life_years,
            life_range_years: load.life_range_years,
            dollars_per_month: load.dollars_per_month,
        })
    }

    /// The best policy at each size of the curve, by the runs over the whole trace where there are any.
    fn points(&self, study: &CurveStudy, terms: &LoadTerms, systems: &SimulatedSystems) -> Vec<MemoryPoint> {
        let references = study.lru.references() as f64;
        let host_bytes = terms.life.host_bytes(&systems.then);
        let now = self.now.to_string();
        let without_cache = self.uncached.then_some(systems.now.result.cost);
        let at_size = |(size, &frames): (usize, &u64)| {
            if let Some(point) = self.exact_point(frames, terms, &systems.exact) {
                let cost_now = without_cache.unwrap_or(point.cost_now);
                return Some(MemoryPoint { cost_now, ..point });
            }
            let of = study.policies.iter().zip(&study.estimates);
            let bills = of.filter_map(|(policy, estimates)| {
                let estimate = estimates.get(size)?;
                Some((policy.to_string(), estimate, self.questioner.bill(study, estimate.traffic)))
            });
            let bills: Vec<_> = bills.collect();
            let best = bills.iter().min_by(|(_, _, a), (_, _, b)| a.total_cmp(b))?;
            let present = bills.iter().find(|(policy, _, _)| *policy == now)?;
            let (policy, estimate, cost) = if self.keeps_policy() { present } else { best };
            let (_, _, cost_now) = present;
            let cost_now = without_cache.unwrap_or(*cost_now);
            let traffic = estimate.traffic;
            let writes_per_reference = traffic.writes as f64 / references;
            let not_counted = if self.counting.at_end == AtEnd::Flush { traffic.dirty_before } else { 0 };
            let owed = OwedWrites::new(traffic.writes, traffic.end_writes, traffic.dirty_left, not_counted);
            let life = terms.life(host_bytes, writes_per_reference);
            let life = life.filter(|_| !owed.are_most());
            Some(MemoryPoint {
                frames,
                bytes: terms.page_size.map(|page| frames.saturating_mul(page)),
                policy: policy.clone(),
                cost: *cost,
                best_policy: best.0.clone(),
                best_cost: best.2,
                error: estimate.errors.map_or(Some(0.0), |errors| errors.cost),
                cost_now,
                reads_per_reference: estimate.traffic.reads as f64 / references,
                writes_per_reference,
                bytes_written_per_day: terms.bytes_per_day(writes_per_reference),
                life_years: life.map(|life| life.years),
                life_range_years: life.and_then(|life| life.range),
                dollars_per_month: terms
                    .monthly([traffic.all_reads() as f64 / references, writes_per_reference], frames)
                    .map(|cost| cost.total),
            })
        };
        study.sizes.iter().enumerate().filter_map(at_size).collect()
    }

    fn warnings(
        &self,
        terms: &LoadTerms,
        now: &SystemLoad,
        then: &SystemLoad,
        life: &LifeAnswer,
        systems: &SimulatedSystems,
    ) -> Vec<AdviceNote> {
        let facts = WarningFacts {
            references: now.references,
            warmup: self.facts.warmup,
            distinct_pages: self.facts.facts.distinct_pages,
            references_per_second: terms.rate.map(|rate| rate.references_per_second),
            page_size: terms.page_size,
            below_cache: self.metadata.below_cache,
            is_measured: terms.measured.is_some(),
            now,
            then,
        };
        let measured = self.request.measured.as_ref();
        let lost = measured.and_then(MeasuredWrites::lost_events).into_iter().chain(measured.and_then(MeasuredWrites::ended));
        let cached = self.cached.map(|cached| cached.note());
        let counted = terms.counted_note(now);
        let mut warnings: Vec<AdviceNote> = lost.chain(counted).chain(cached).chain(facts.warnings()).collect();
        if then.frames < now.frames && self.budget.is_some_and(|budget| budget < self.present) {
            warnings.push(AdviceNote::new(
                NoteKind::LessMemory,
                "the budget is less than the present memory, so that the bill may grow",
            ));
        }
        let in_words = |life: Option<DeviceLife>| life.map_or_else(|| "an unknown time".into(), |life| life.to_string());
        if life.reached_then == Some(false) {
            warnings.push(AdviceNote::new(
                NoteKind::ShortLife,
                format!(
                    "the device lives {}{} with the recommendation, and {} are required",
                    if life.not_counted.is_empty() { "" } else { "at most " },
                    in_words(then.life()),
                    in_words(life_of(life.required_years, None))
                ),
            ));
        }
        let cells = [&systems.now, &systems.then];
        let failed = cells.iter().find_map(|cell| cell.device.as_ref()?.failed.as_ref());
        warnings
            .extend(failed.map(|failed| AdviceNote::new(NoteKind::DeviceFailed, format!("{failed}; its figures end there"))));
        warnings
    }
}

impl TraceQuestions<'_> {
    /// LRU at every size, the facts of the trace, and a memory size in frames, from one pass.
    fn facts(&self, size: MemorySize, asymmetry: Asymmetry, counting: &CountingRules) -> Result<CurveStudy, LabError> {
        let request = crate::curve::CurveRequest {
            sizes: vec![size],
            warmup: counting.warmup,
            at_end: counting.at_end,
            ..crate::curve::CurveRequest::new(crate::policy_selection::PolicySelection::lists(["lru"]), asymmetry)
        };
        self.lab.curve(self.source, &request)
    }
}

/// The size of the curve with the least $ a month.
fn cheapest_of(curve: &[MemoryPoint]) -> Option<u64> {
    let priced = curve.iter().filter_map(|point| Some((point.frames, point.dollars_per_month?)));
    priced.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(frames, _)| frames)
}

/// The server that the names of a trace suggest.
fn server_of(name: &str, source: &Source) -> ServerKind {
    match ServerKind::guess_from_trace_name(name) {
        ServerKind::Other => ServerKind::guess_from_trace_name(source.label()),
        server => server,
    }
}

/// The policies to choose from: the present one first.
fn candidates(now: &PolicySpec, pricing: &Pricing) -> Result<Vec<PolicySpec>, RequestError> {
    let mut candidates = vec![now.clone()];
    for candidate in CANDIDATES {
        let candidate = pricing.capabilities.supported(candidate.parse()?)?;
        if candidates.iter().all(|other| other.to_string() != candidate.to_string()) {
            candidates.push(candidate);
        }
    }
    Ok(candidates)
}
