//! The experiments that come with Ebbpool.

/// Each file of `experiments/`, in the order of the report.
macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        pub(crate) static EXPERIMENTS: &[(&str, &str)] = &[$((
            concat!("experiments/", $name, ".toml"),
            include_str!(concat!("../../../../experiments/", $name, ".toml")),
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
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};
    use std::fs;
    use std::path::Path;

    use ebbpool_policy::PolicySpec;

    use super::*;
    use crate::reproduce::format::{Experiment, Scale};
    use crate::reproduce::lab::{self, OPTIMUM};
    use crate::reproduce::plan;
    use crate::reproduce::traces::Traces;

    #[test]
    fn all_files_are_listed_and_are_named_after_their_ids() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files: BTreeSet<String> = fs::read_dir(directory)
            .expect("experiments/")
            .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
            .filter(|name| name.ends_with(".toml"))
            .map(|name| format!("experiments/{name}"))
            .collect();
        let listed: BTreeSet<String> = EXPERIMENTS
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        assert_eq!(
            files, listed,
            "experiments! in shipped.rs has to name each file"
        );
        for (name, text) in EXPERIMENTS {
            let experiment =
                Experiment::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(*name, format!("experiments/{}.toml", experiment.id()));
            assert!(!experiment.claim.is_empty(), "{name} claims nothing");
        }
    }

    #[test]
    fn all_that_they_name_is_known_at_both_scales() {
        let traces = Traces::default();
        let mut sources = HashSet::new();
        for (file, text) in EXPERIMENTS {
            let experiment = Experiment::parse(text, file).expect("an experiment");
            let scales = [Scale::Quick, Scale::Full];
            let points = scales.map(|scale| plan::points(&experiment, scale, &[]));
            for cell in points.iter().flatten().flat_map(|point| point.how.cells()) {
                let around = &cell.surroundings;
                if sources.insert(around.trace.clone()) {
                    let source = traces.source(&around.trace);
                    assert!(source.is_ok(), "{file}: {:?}", around.trace);
                }
                let policy = cell.policy.parse::<PolicySpec>();
                assert!(cell.policy == OPTIMUM || policy.is_ok(), "{file}: {cell:?}");
                assert!(lab::size(&cell.frames).is_ok(), "{file}: {cell:?}");
                assert!(lab::warmup(&around.warmup).is_ok(), "{file}: {cell:?}");
            }
        }
    }
}
