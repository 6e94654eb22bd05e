//! casa ("Adaptive").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::list::List;

/// A clean and a dirty list.
pub(crate) struct Casa {
    m: usize,
    clean: List<()>,
    dirty: List<()>,
    tau: f64,
    asymmetry: f64,
}

impl Casa {
    pub(crate) fn new(m: usize) -> Casa {
        Casa { m, clean: List::new(), dirty: List::new(), tau: m as f64 / 2.0, asymmetry: 1.0 }
    }
}

impl Policy for Casa {
    fn hit(&mut self, page: u64, write: bool) {
        let cr = 1.0 / (1.0 + self.asymmetry);
        let cw = self.asymmetry / (1.0 + self.asymmetry);
        let c = self.clean.len() as f64;
        let d = self.dirty.len() as f64;
        match (self.clean.contains(page), write) {
            // A read hit in C.
            (true, false) => {
                self.tau = (self.tau + cr * d / c).min(self.m as f64);
                self.clean.move_to_mru(page);
            }
            // A write hit in D.
            (false, true) => {
                self.tau = (self.tau - cw * c / d).max(0.0);
                self.dirty.move_to_mru(page);
            }
            // A read hit in D.
            (false, false) => self.dirty.move_to_mru(page),
            // A write hit in C.
            (true, true) => {
                self.clean.take(page);
                self.dirty.push(page, ());
            }
        }
    }

    fn victim(&mut self, _write: bool, pinned: &BTreeSet<u64>) -> u64 {
        match (self.clean.lru(pinned), self.dirty.lru(pinned)) {
            (Some(clean), Some(dirty)) => {
                if self.clean.len() as f64 > self.tau {
                    clean
                } else {
                    dirty
                }
            }
            (Some(clean), None) => clean,
            (None, Some(dirty)) => dirty,
            (None, None) => panic!("no unpinned page"),
        }
    }

    fn admit(&mut self, page: u64, write: bool) {
        if write {
            self.dirty.push(page, ());
        } else {
            self.clean.push(page, ());
        }
    }

    fn evict(&mut self, page: u64) {
        if self.clean.contains(page) {
            self.clean.take(page);
        } else {
            self.dirty.take(page);
        }
    }

    fn clean(&mut self, page: u64) {
        self.dirty.take(page);
        self.clean.push(page, ());
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }

    fn target(&self) -> Option<f64> {
        Some(self.tau)
    }
}

#[cfg(test)]
mod tests {
    use crate::model;
    use crate::tests::Player;

    #[test]
    fn tau() {
        let mut casa = Player::new(model("casa", 4), "");
        casa.model.costs(3.0); // cr = 1/4, cw = 3/4
        let mut step = |text: &str, victims: &[u64], tau: f64| {
            assert_eq!(casa.play(text), victims, "{text}");
            assert_eq!(casa.model.target(), Some(tau), "{text}");
        };
        step("R1 R2 W3", &[], 2.0);
        // C = 1 2, D = 3: + 1/4 * 1 / 2.
        step("R1", &[], 2.125);
        step("W4", &[], 2.125);
        // C = 2 1, D = 3 4: - 3/4 * 2 / 2.
        step("W3", &[], 1.375);
        // A read hit in D only moves it: D = 3 4.
        step("R4", &[], 1.375);
        // |C| = 2 > tau: 2 is evicted. C = 1 5.
        step("R5", &[2], 1.375);
        step("R5", &[], 1.625);
        // Floored at 0.
        step("W4 W4", &[], 0.125);
        step("W4", &[], 0.0);
        // |C| = 2 > 0: 1 is evicted. D = 3 4 6.
        step("W6", &[1], 0.0);
        // A write hit in C leaves tau. C is empty: D's LRU page is evicted.
        step("W5", &[], 0.0);
        step("R7", &[3], 0.0);
    }

    #[test]
    fn tau_is_capped() {
        let mut casa = Player::new(model("casa", 4), "");
        casa.model.costs(0.0); // cr = 1
        // C = 1, D = 2 3 4: + 1 * 3 / 1, from 2 to 5, capped at 4.
        casa.play("R1 W2 W3 W4 R1");
        assert_eq!(casa.model.target(), Some(4.0));
        // |C| = 1 is not more than 4: D's LRU page is evicted.
        assert_eq!(casa.play("R5"), [2]);
    }
}
