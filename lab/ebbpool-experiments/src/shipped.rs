//! The experiments that ship with Ebbpool.

/// Each file of `experiments/`, in the order of the report.
macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        pub(crate) static EXPERIMENTS: &[(&str, &str)] = &[$((
            concat!("experiments/", $name, ".toml"),
            include_str!(concat!("../experiments/", $name, ".toml")),
        )),*];
    };
}

experiments! {
    "cikm-table1",
    "cikm-table2",
    "cikm-equation4",
    "cikm-table4",
    "cikm-group",
    "cikm-fig2",
    "cikm-fig3",
    "cikm-fig4",
    "cikm-fig5",
    "cikm-fig6",
    "cikm-fig7",
    "cikm-fig8",
    "cikm-fig9",
    "cikm-fig10",
    "cikm-fig11",
    "cikm-fig12",
    "cikm-fig12-clustering",
    "tc-table1",
    "tc-table3",
    "tc-table5",
    "tc-fig2",
    "tc-fig3",
    "tc-table6",
    "tc-fig4",
    "tc-fig5",
    "tc-fig6",
    "tc-fig7",
    "tc-fig8",
    "tc-fig9",
    "tc-fig10",
    "tc-fig11",
    "tc-fig12",
    "adlru-fig6",
    "adlru-fig7",
    "adlru-fig8",
    "adlru-fig9",
    "adlru-fig10",
    "adlru-fig11",
    "adlru-fig12",
    "adlru-fig13",
    "adlru-table9",
    "ppe-fig2",
    "ppe-fig2-flash",
    "ppe-fig3",
    "ppe-fig4",
    "ppe-fig5",
    "ppe-fig6",
    "cfdc-fig3",
    "cfdc-priority",
    "cfdc-fig4",
    "cfdc-fig5",
    "cfdc-fig6",
    "cfdc-fig7",
    "cfdc-fig8",
    "cfdc-fig9",
    "ebb/ebb-cells",
    "ebb/ebb-judged",
    "ebb/ebb-drawn",
    "ebb/ebb-free",
    "ebb/ebb-default",
    "ebb/ebb-bound",
    "ebb/ebb-informed",
    "ebb/ebb-sensitivity",
    "ebb/ebb-ablations",
}

/// The place of an experiment in the list, behind all others if it does not ship with Ebbpool.
pub(crate) fn position(id: &str) -> usize {
    let is = |(file, _): &(&str, &str)| {
        let (_, name) = file.rsplit_once('/').unwrap_or(("", file));
        name.strip_suffix(".toml") == Some(id)
    };
    EXPERIMENTS.iter().position(is).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap, HashSet};
    use std::fs;
    use std::path::Path;

    use ebbpool_policy::{PolicySpec, registry};

    use super::*;
    use crate::format::contenders::{self, PolicyChoice};
    use crate::format::{Claim, Experiment, ExperimentKind, Paper, PointAggregate, Scale};
    use crate::metric::Metric;
    use crate::plan::{self, RunSelection};
    use crate::traces::Traces;

    fn all() -> impl Iterator<Item = (&'static str, Experiment)> {
        EXPERIMENTS.iter().map(|(name, text)| {
            let experiment = Experiment::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
            (*name, experiment)
        })
    }

    /// The experiment files in a directory and its subdirectories.
    fn files(directory: &Path, name: &str) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        for entry in fs::read_dir(directory).expect(name) {
            let path = entry.expect("an entry").path();
            let own = path.file_name().and_then(|own| own.to_str()).expect("a name");
            let name = format!("{name}/{own}");
            if path.is_dir() {
                files.extend(self::files(&path, &name));
            } else if name.ends_with(".toml") {
                files.insert(name);
            }
        }
        files
    }

    #[test]
    fn all_files_are_listed_and_are_named_after_their_ids() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let files = files(&directory, "experiments");
        let listed: BTreeSet<String> = EXPERIMENTS.iter().map(|(name, _)| name.to_string()).collect();
        assert_eq!(files, listed, "experiments! in shipped.rs must name each file");
        for (name, experiment) in all() {
            let of_paper = match experiment.paper {
                Paper::Ebb => "ebb/",
                _ => "",
            };
            assert_eq!(*name, format!("experiments/{of_paper}{}.toml", experiment.id()));
            assert!(!experiment.claim.is_empty(), "{name} claims nothing");
        }
    }

    #[test]
    fn experiments_name_only_known_traces_and_policies() {
        let traces = Traces::default();
        let mut sources = HashSet::new();
        for (file, experiment) in all() {
            let scales = [Scale::Quick, Scale::Full];
            let points = scales.map(|scale| {
                let points = plan::points(&experiment, scale, &[]);
                points.unwrap_or_else(|error| panic!("{file}: {error}"))
            });
            for cell in points.iter().flatten().flat_map(|point| &point.runs).flat_map(RunSelection::cells) {
                let trace = &cell.config.trace;
                if sources.insert(trace.clone()) {
                    let source = traces.source(trace);
                    assert!(source.is_ok(), "{file}: {trace:?}");
                }
            }
        }
    }

    #[test]
    fn all_parameters_of_ebb_are_studied_and_ebb_does_not_compete_with_itself() {
        let entry = registry::entries().iter().find(|entry| entry.name == "ebb");
        let params = entry.expect("ebb").params;
        let named = |(name, _): &(&str, Experiment)| name.ends_with("ebb-sensitivity.toml");
        let (_, sensitivity) = all().find(named).expect("the experiment");
        let default: PolicySpec = "ebb".parse().expect("ebb");
        for param in params {
            let group = contenders::expanded(&sensitivity, &[param.name.to_string()]);
            assert!(group.len() > 1, "{} has no values", param.name);
            let same = contenders::of(&sensitivity).into_iter().filter(|participant| {
                let PolicyChoice::One(policy) = &participant.choice else {
                    return false;
                };
                group.contains(&participant.name) && policy.parse().ok().as_ref() == Some(&default)
            });
            assert_eq!(same.count(), 1, "{}: the default is one", param.name);
        }
        for (name, experiment) in all().filter(|(_, it)| it.paper == Paper::Ebb) {
            for participant in contenders::of(&experiment) {
                if let PolicyChoice::BestOf(rivals) = participant.choice {
                    let ours = rivals.iter().find(|(_, policy)| policy.starts_with("ebb"));
                    assert_eq!(ours, None, "{name}: {}", participant.name);
                }
            }
        }
    }

    /// The claims of the papers, each with the name of its file.
    fn claims_of_papers() -> impl Iterator<Item = (&'static str, Claim)> {
        let published = all().filter(|(_, experiment)| experiment.paper.is_published());
        published.flat_map(|(name, experiment)| {
            let claims: Vec<Claim> = experiment.claims().cloned().collect();
            claims.into_iter().map(move |claim| (name, claim))
        })
    }

    #[test]
    fn words_of_limits_are_judged_as_limits() {
        for (name, claim) in claims_of_papers() {
            let paper = claim.paper.as_deref().unwrap_or_default();
            let words = format!("{} {paper}", claim.says).replace("no more than", "at most");
            let take = claim.improvement.as_ref().map(|it| it.take);
            let is_limit = claim.bound.is_some() || claim.near.is_some() || claim.flat.is_some();
            let has = |text: &str| words.contains(text);
            let says = &claim.says;
            if has("up to ") {
                assert_eq!(take, Some(PointAggregate::Most), "{name}: {says}");
            }
            if has("at most ") && !paper.contains("we take it as") {
                let is_limit = is_limit || take == Some(PointAggregate::Most);
                assert!(is_limit, "{name}: {says}");
            }
            let has_figure_after = |text: &str| {
                let mut parts = words.split(text).skip(1);
                parts.any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
            };
            if has_figure_after("more than ") {
                assert_eq!(take, Some(PointAggregate::Least), "{name}: {says}");
            }
            if has_figure_after("less than ") && !paper.contains("we look at") {
                assert!(is_limit, "{name}: {says}");
            }
            if has("considerable") {
                let by = claim.trend.as_ref().and_then(|trend| trend.by);
                assert!(by.is_some(), "{name}: {says}");
            }
        }
    }

    /// A verdict that another seed turns says nothing about the policies. Left out are devices that are looked at without a buffer,
    /// and policies that are timed alone.
    #[test]
    fn strings_of_random_numbers_are_repeated_with_other_seeds() {
        const DRAWN: [&str; 3] = ["uniform:", "zipf:", "scan-mix:"];
        let mut repeated = 0;
        for (name, experiment) in all() {
            let is_about_policies = experiment.metric != Metric::ReadInWrites
                && experiment.kind == ExperimentKind::Sweep
                && experiment.paper.is_published();
            let workloads = experiment.workloads.0.iter();
            let workloads: Vec<_> = workloads.map(|(_, it)| format!("{:?}", it.get_ref())).collect();
            let is_drawn = |text: &String| DRAWN.iter().any(|drawn| text.contains(drawn));
            if is_about_policies && workloads.iter().any(is_drawn) {
                let seeds = experiment.seeds(Scale::Quick).len();
                assert!(seeds >= 5, "{name}: {seeds} seeds");
                let has_seed = |text: &String| !is_drawn(text) || text.contains("{seed}");
                assert!(workloads.iter().all(has_seed), "{name}");
                repeated += 1;
            }
        }
        assert!(repeated > 5, "{repeated}");
    }

    #[test]
    fn what_no_paper_claims_is_marked() {
        let mut marked = 0;
        for (name, claim) in claims_of_papers() {
            let paper = claim.paper.as_deref().unwrap_or_default();
            let is_claimed = !paper.starts_with("not claimed");
            assert_eq!(claim.unclaimed.is_none(), is_claimed, "{name}: {}", claim.says);
            marked += usize::from(!is_claimed);
        }
        assert!(marked >= 3, "{marked}");
    }

    #[test]
    fn an_example_of_two_papers_is_counted_once() {
        /// All that the result of a claim follows from.
        fn example(experiment: &Experiment, claim: &Claim) -> String {
            let workloads = experiment.workloads.0.iter();
            let workloads: Vec<_> = workloads.map(|(_, it)| it.get_ref()).collect();
            let policies = experiment.policies.0.iter();
            let policies: Vec<_> = policies.map(|(_, it)| it.get_ref()).collect();
            let varied: Vec<_> = experiment.varied(Scale::Quick).collect();
            let metric = claim.metric.unwrap_or(experiment.metric);
            let asked = (metric, &claim.at, claim.check());
            format!("{workloads:?} {policies:?} {:?} {varied:?} {asked:?}", experiment.setting)
        }
        let mut first: HashMap<String, String> = HashMap::new();
        let mut repeated = 0;
        for (name, experiment) in all() {
            for claim in experiment.claims() {
                let at = example(&experiment, claim);
                let earlier = first.get(&at);
                assert_eq!(claim.repeats.as_ref(), earlier, "{name}: {}", claim.says);
                match earlier {
                    Some(_) => repeated += 1,
                    None => {
                        first.insert(at, experiment.id().to_string());
                    }
                }
            }
        }
        assert!(repeated > 0);
    }
}
