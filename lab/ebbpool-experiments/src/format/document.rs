//! Checks that the parts of an experiment file are consistent.

use std::collections::HashSet;
use std::ops::Range;

use super::super::ordered::Text;
use super::*;

/// The name of the first placeholder `{name}` of a text.
fn placeholder(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('{')?;
    rest.split_once('}').map(|(name, _)| name)
}

/// A file's text, and its name for messages.
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    pub(super) label: &'a str,
}

impl Document<'_> {
    pub(super) fn error(&self, span: Option<Range<usize>>, problem: String) -> FormatError {
        let before = span.and_then(|span| self.text.get(..span.start));
        let location = match before {
            Some(before) => format!("{}, line {}", self.label, before.matches('\n').count() + 1),
            None => self.label.into(),
        };
        FormatError { location, problem }
    }

    pub(super) fn check(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let id = experiment.id.get_ref();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if id.is_empty() || !id.chars().all(plain) {
            let problem = format!("'{id}' is not an id; use lower-case letters, digits and hyphens");
            return Err(self.error(Some(experiment.id.span()), problem));
        }
        self.check_contents(experiment)?;
        self.check_seeds(experiment)?;
        self.check_varied(experiment)?;
        let names = KnownNames::new(experiment);
        for ranking in &experiment.ranking {
            let problem = names.wrong_in_ranking(ranking.get_ref());
            problem.map_or(Ok(()), |it| Err(self.error(Some(ranking.span()), it)))?;
        }
        for figure in &experiment.figure {
            let problem = names.wrong_in_figure(figure.get_ref());
            problem.map_or(Ok(()), |it| Err(self.error(Some(figure.span()), it)))?;
        }
        for claim in &experiment.claim {
            let problem = names.wrong_in_claim(claim.get_ref());
            problem.map_or(Ok(()), |it| Err(self.error(Some(claim.span()), it)))?;
        }
        Ok(())
    }

    /// Checks that ranges to draw from are valid, and that nothing else varies.
    pub(super) fn check_draw(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let Some(draw) = &experiment.draw else {
            return Ok(());
        };
        let varies = !experiment.vary.0.is_empty() || !experiment.full.vary.0.is_empty();
        let problem = match varies {
            true => Some("there are [draw] and [vary]; use one of them".into()),
            false => draw.get_ref().problem(),
        };
        problem.map_or(Ok(()), |it| Err(self.error(Some(draw.span()), it)))
    }

    /// Checks that the experiment has everything that its kind needs.
    fn check_contents(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let missing = |what: &str| Err(self.error(None, format!("there is no {what}")));
        if experiment.kind == ExperimentKind::Priorities {
            return match experiment.clusters.0.is_empty() {
                true => missing("[clusters]"),
                false => Ok(()),
            };
        }
        if experiment.workloads.0.is_empty() {
            return missing("[workloads]");
        }
        if experiment.policies.0.is_empty() {
            return missing("[policies]");
        }
        if experiment.vary.get("frames").is_none() && experiment.setting.frames.is_none() {
            return missing("number of frames; give frames in [setting] or in [vary]");
        }
        for (name, workload) in &experiment.workloads.0 {
            if !workload.get_ref().is_complete() {
                let problem = format!("workload '{name}' must have is, or quick and full, or references, and nothing else");
                return Err(self.error(Some(workload.span()), problem));
            }
        }
        for (name, contender) in &experiment.policies.0 {
            if let Contender::Group(group) = contender.get_ref()
                && (group.template().is_none() || group.values().is_empty())
            {
                let problem = format!("policy '{name}' must have one of best-of, worst-of and each-of, and values in among");
                return Err(self.error(Some(contender.span()), problem));
            }
        }
        let mut names = HashSet::new();
        let all = contenders::of(experiment).into_iter();
        let twice = all.map(|participant| participant.name).find(|name| !names.insert(name.clone()));
        twice.map_or(Ok(()), |name| {
            let problem = format!("two policies are called '{name}'; omit one with except");
            Err(self.error(None, problem))
        })
    }

    /// Checks that the seeds are used, and that seeds are given where they are used.
    fn check_seeds(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let seeds = [Scale::Quick, Scale::Full].map(|scale| experiment.seeds(scale));
        if seeds.iter().all(|seeds| seeds.is_empty()) {
            return Ok(());
        }
        let repeated = |seeds: &[Text]| seeds.iter().collect::<HashSet<_>>().len() < seeds.len();
        let is_used = |(text, _): &(String, _)| text.contains(&format!("{{{SEED}}}"));
        let problem = if seeds.iter().any(|seeds| seeds.is_empty()) {
            "there are seeds at full scale only; give the quick ones in [setting]"
        } else if seeds.iter().any(|seeds| repeated(seeds)) {
            "a seed occurs twice"
        } else if !matches!(experiment.kind, ExperimentKind::Sweep | ExperimentKind::Timing) {
            "only experiments of kind sweep or timing have seeds"
        } else if experiment.vary.get(SEED).is_some() {
            "seed varies in [vary], and [setting] has seeds; use one of them"
        } else if !texts(experiment).iter().any(is_used) {
            "there are seeds, but {seed} is used nowhere"
        } else {
            return Ok(());
        };
        Err(self.error(None, problem.into()))
    }

    /// Checks that every varied parameter is used, and that every placeholder is a varied parameter.
    fn check_varied(&self, experiment: &Experiment) -> Result<(), FormatError> {
        let mut used: HashSet<String> = HashSet::new();
        let names: Vec<&str> = experiment.vary.names().collect();
        for (text, span) in texts(experiment) {
            let mut rest = text.as_str();
            while let Some(name) = placeholder(rest) {
                let is_seed = name == SEED && !experiment.seeds(Scale::Quick).is_empty();
                if !name.is_empty() && !is_seed && !names.contains(&name) {
                    let more = match name {
                        SEED => "; give seeds in [setting]",
                        _ => "",
                    };
                    let problem = format!("{{{name}}} is used, but '{name}' does not vary{more}");
                    return Err(self.error(span, problem));
                }
                used.insert(name.to_string());
                rest = rest.split_once('}').map_or("", |(_, rest)| rest);
            }
        }
        let all = experiment.vary.0.iter().chain(&experiment.full.vary.0);
        for (name, values) in all {
            let problem = if values.get_ref().is_empty() {
                format!("{name} has no values")
            } else if !names.contains(&name.as_str()) {
                format!("{name} varies at full scale only; give its quick values in [vary]")
            } else if !used.contains(name) && !Setting::KEYS.contains(&name.as_str()) {
                format!("{name} varies, but {{{name}}} is used nowhere")
            } else {
                continue;
            };
            return Err(self.error(Some(values.span()), problem));
        }
        Ok(())
    }
}

/// All texts that may contain placeholders, with their positions in the file.
fn texts(experiment: &Experiment) -> Vec<(String, Option<Range<usize>>)> {
    let mut texts = Vec::new();
    for (_, workload) in &experiment.workloads.0 {
        for trace in [Scale::Quick, Scale::Full].map(|scale| workload.get_ref().at(scale)) {
            for part in trace.iter().flat_map(Trace::parts) {
                texts.push((part.to_string(), Some(workload.span())));
            }
        }
    }
    for (_, contender) in &experiment.policies.0 {
        let text = match contender.get_ref() {
            Contender::Policy(text) => Some(text.clone()),
            Contender::Group(group) => group.template().map(str::to_string),
        };
        texts.extend(text.map(|text| (text, Some(contender.span()))));
    }
    for setting in [&experiment.setting, &experiment.full.setting] {
        let values = Setting::KEYS.iter().filter_map(|key| setting.get(key));
        texts.extend(values.map(|text| (text.to_string(), None)));
    }
    texts
}

/// The names that figures, rankings and claims may use.
struct KnownNames<'a> {
    policies: Vec<String>,
    /// The names of groups, which stand for their policies.
    groups: Vec<&'a str>,
    dimensions: Vec<&'a str>,
    experiment: &'a Experiment,
}

impl<'a> KnownNames<'a> {
    fn new(experiment: &'a Experiment) -> Self {
        let policies = match experiment.kind {
            ExperimentKind::Estimates => ESTIMATORS.map(str::to_string).to_vec(),
            ExperimentKind::Priorities => experiment.clusters.names().map(str::to_string).collect(),
            ExperimentKind::Sweep | ExperimentKind::Timing => {
                let all = contenders::of(experiment).into_iter();
                all.map(|participant| participant.name).collect()
            }
        };
        let is_group = |contender: &Contender| match contender {
            Contender::Policy(_) => false,
            Contender::Group(group) => group.each_of.is_some(),
        };
        let groups = experiment.policies.0.iter();
        let groups = groups.filter(|(_, contender)| is_group(contender.get_ref()));
        KnownNames {
            policies,
            groups: groups.map(|(name, _)| name.as_str()).collect(),
            dimensions: experiment.dimensions(),
            experiment,
        }
    }

    fn wrong_policy<'b>(&self, mut named: impl Iterator<Item = &'b str>) -> Option<String> {
        let unknown = named.find(|name| !self.policies.iter().any(|policy| policy == name))?;
        let all = self.policies.join(", ");
        Some(format!("there is no policy '{unknown}' here; the policies are {all}"))
    }

    /// The message about the first name that is neither a policy nor a group; `None` if each is one.
    fn wrong_policy_or_group<'b>(&self, named: impl Iterator<Item = &'b str>) -> Option<String> {
        self.wrong_policy(named.filter(|name| !self.groups.contains(name)))
    }

    fn wrong_dimension<'b>(&self, mut named: impl Iterator<Item = &'b str>) -> Option<String> {
        let unknown = named.find(|name| !self.dimensions.contains(name))?;
        let all = self.dimensions.join(", ");
        Some(format!("'{unknown}' does not vary here; these do: {all}"))
    }

    fn wrong_in_figure(&self, figure: &Figure) -> Option<String> {
        let special = [REFERENCES, POLICY];
        let x = Some(figure.x.as_str()).filter(|x| !special.contains(x));
        let panels = figure.panels.iter().map(String::as_str);
        let panels = panels.filter(|panel| *panel != POLICY);
        let lines = figure.lines.as_deref().filter(|lines| *lines != POLICY);
        let others = figure.improvement_of.iter().chain(&figure.ratio_to);
        let policies = figure.policies.iter().map(String::as_str);
        let at = figure.at.names();
        self.wrong_dimension(x.into_iter().chain(panels).chain(lines).chain(at))
            .or_else(|| self.wrong_value(&figure.at))
            .or_else(|| self.wrong_policy(others.map(String::as_str)))
            .or_else(|| self.wrong_policy_or_group(policies))
            .or_else(|| {
                let both = figure.improvement_of.is_some() && figure.ratio_to.is_some();
                both.then(|| "a figure has improvement-of or ratio-to, not both".into())
            })
    }

    fn wrong_in_ranking(&self, ranking: &Ranking) -> Option<String> {
        let policies = ranking.policies.iter().map(String::as_str);
        self.wrong_policy([ranking.ratio_to.as_str()].into_iter())
            .or_else(|| self.wrong_policy_or_group(policies))
            .or_else(|| self.wrong_dimension(ranking.columns.iter().map(String::as_str)))
    }

    fn wrong_in_claim(&self, claim: &Claim) -> Option<String> {
        let Some(check) = claim.check() else {
            return Some(
                "a claim has exactly one of order, best, worst, improvement, trend, peak, value, near, bound, flat, best-at, ratio, fixed, rank, times, more, greatest, valley, depends and no-winner"
                    .into(),
            );
        };
        let named = check.policies().into_iter();
        let wrong = match check {
            Check::Best(_) | Check::Worst(_) | Check::Fixed(_) => self.wrong_policy_or_group(named),
            _ => self.wrong_policy(named),
        };
        let wrong = wrong.or_else(|| {
            let over_time = matches!(check, Check::Trend(_));
            let along = check.along().filter(|along| !over_time || *along != REFERENCES);
            let on = match check {
                Check::Depends(it) => Some(it.on.as_str()),
                _ => None,
            };
            self.wrong_dimension(along.into_iter().chain(on).chain(claim.at.names()))
        });
        if wrong.is_some() {
            return wrong;
        }
        let along = check.along().unwrap_or_default();
        let wrong = self.wrong_value(&claim.at).or_else(|| self.wrong_one_of(along, &check.values_along()));
        if wrong.is_some() {
            return wrong;
        }
        wrong_in_check(&check).or_else(|| match check {
            Check::Fixed(it) if !self.experiment.is_fixed(&it.policy) => {
                Some(format!("'{}' is not the same policy at all points, so it is not fixed", it.policy))
            }
            _ => None,
        })
    }

    /// A problem with a value that a dimension does not have.
    fn wrong_value(&self, at: &Ordered<OneOrMore>) -> Option<String> {
        at.0.iter().find_map(|(name, requested)| {
            let requested: Vec<&Text> = requested.values().iter().collect();
            self.wrong_one_of(name, &requested)
        })
    }

    fn wrong_one_of(&self, name: &str, requested: &[&Text]) -> Option<String> {
        let values = self.values_of(name);
        let mut requested = requested.iter();
        let Text(unknown) = requested.find(|Text(one)| !values.contains(one))?;
        let all = values.join(", ");
        Some(format!("{name} is never '{unknown}' here; it is {all}"))
    }

    /// The values of a dimension at both scales.
    fn values_of(&self, name: &str) -> Vec<String> {
        if name == WORKLOAD {
            return self.experiment.workloads.names().map(str::to_string).collect();
        }
        let scales = [Scale::Quick, Scale::Full];
        let varied = scales.iter().flat_map(|&scale| self.experiment.varied(scale));
        let values = varied.filter(|(varied, _)| *varied == name);
        let mut all: Vec<String> = Vec::new();
        for Text(value) in values.flat_map(|(_, values)| values) {
            if !all.contains(value) {
                all.push(value.clone());
            }
        }
        all
    }
}

/// A problem within a check.
fn wrong_in_check(check: &Check) -> Option<String> {
    match check {
        Check::Value(it) if it.is.is_some() == it.about.is_some() => {
            Some("a value is either exact (is) or rough (about)".into())
        }
        Check::Bound(BoundCheck { over: Some(_), percent: Some(_), at_most: None, .. })
        | Check::Bound(BoundCheck { over: None, percent: None, at_most: Some(_), .. }) => None,
        Check::Bound(_) => Some("a bound has over and percent, or at-most".into()),
        Check::Ratio(it) if it.at_most.is_nan() || it.at_most <= 0.0 => Some("a ratio is at most a number above 0".into()),
        Check::Rank(it) if it.is == 0 => Some("the best rank is 1".into()),
        Check::Times(it) if it.is.is_some() == it.percent.is_some() => {
            Some("settings differ by a number of times (is) or by per cent (percent)".into())
        }
        Check::Order(order) | Check::NoWinner(order) if order.len() < 2 => Some("an order has at least two policies".into()),
        Check::Improvement(ImprovementCheck {
            percent: Percent::One(percent),
            take: PointAggregate::Most | PointAggregate::Least,
            ..
        }) if percent.is_nan() || *percent <= 0.0 => Some("a limit of an improvement (take) is a number above 0".into()),
        Check::Trend(it) if it.by.is_some() && it.over.is_some() => {
            Some("by is a change of the policy's own metric, without over".into())
        }
        Check::Depends(it) if it.on == it.along => Some("the best value of a parameter depends on another parameter".into()),
        _ if range_of(check).is_some_and(|[low, high]| low.is_nan() || low >= high) => {
            Some("a range goes from the smaller to the larger number".into())
        }
        _ => None,
    }
}

/// The range of a check that has one.
fn range_of(check: &Check) -> Option<[f64; 2]> {
    match check {
        Check::Improvement(it) => match it.percent {
            Percent::Range(range) => Some(range),
            Percent::One(_) => None,
        },
        Check::Times(it) => it.percent,
        Check::More(it) => it.points,
        _ => None,
    }
}
