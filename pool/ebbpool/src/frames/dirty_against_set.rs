//! The set of dirty frames against a set of the standard library. It is not in `dirty.rs`, because the model checker
//! compiles that file with atomics of its own.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::DirtySet;

proptest! {
    #[test]
    fn dirty_frames_are_a_set(steps in prop::collection::vec((0..9000u32, any::<bool>(), any::<bool>()), 0..300)) {
        let set = DirtySet::new(9000).expect("there is memory");
        let mut model = BTreeSet::new();
        for (frame, insert, look) in steps {
            if insert {
                set.insert(frame);
                model.insert(frame);
            } else {
                set.remove_unless(frame, || false);
                model.remove(&frame);
            }
            if look {
                prop_assert_eq!(set.frames(), model.iter().copied().collect::<Vec<_>>());
            }
            prop_assert_eq!(set.count(), model.len());
        }
    }
}
