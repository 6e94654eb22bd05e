//! fd-buffer and fd-exact ("Adaptive").

use std::collections::BTreeSet;

use crate::buffer::Policy;
use crate::policies::fd_static::FdStatic;
use crate::spec::Spec;
use crate::two_stack::TwoStack;

/// When a window ends.
enum Interval {
    /// After this many references.
    References(u64),
    /// When its I/O, in microseconds, reaches this.
    Auto { computing_us_over_q: f64 },
}

enum Cost {
    Paper,
    Exact,
}

/// One page read in microseconds, where only R is known.
const READ_US: f64 = 176.0;

/// fd-static with a policy advisor that sets Mc.
pub(crate) struct FdBuffer {
    m: usize,
    pools: FdStatic,
    two_stack: TwoStack,
    interval: Interval,
    cost: Cost,
    asymmetry: f64,
    /// I/O of this window in page reads.
    io: f64,
    estimates: Option<[f64; 3]>,
}

impl FdBuffer {
    pub(crate) fn new(spec: &mut Spec, m: usize, default_cost: &str) -> FdBuffer {
        let q = spec.fraction("q", "1%").value();
        let interval = match spec.text("interval", "5000").as_str() {
            "auto" => Interval::Auto {
                computing_us_over_q: (m as f64 * 0.002) / q,
            },
            number => Interval::References(number.parse().expect("`interval` is a number")),
        };
        if let Interval::References(number) = interval {
            assert!(number > 0, "an interval of no references");
        }
        let group = spec.number("group", 1) as usize;
        assert!(group > 0, "groups of no pages");
        let cost = match spec.text("cost", default_cost).as_str() {
            "paper" => Cost::Paper,
            "exact" => Cost::Exact,
            other => panic!("`cost={other}` is neither `paper` nor `exact`"),
        };
        let pools = spec.text("pools", "lru");
        FdBuffer {
            m,
            pools: FdStatic::with(m / 2, m, &pools),
            two_stack: TwoStack::new(m, group),
            interval,
            cost,
            asymmetry: 1.0,
            io: 0.0,
            estimates: None,
        }
    }

    /// The reference is observed, before it is served.
    fn observe(&mut self, page: u64, write: bool) {
        self.two_stack.observe(page, write);
        let window_ends = match self.interval {
            Interval::References(number) => self.two_stack.n == number,
            Interval::Auto {
                computing_us_over_q,
            } => self.io * READ_US >= computing_us_over_q,
        };
        if window_ends {
            self.advise();
            self.two_stack.restart();
            self.io = 0.0;
        }
    }

    /// The policy advisor sets Mc.
    fn advise(&mut self) {
        if self.m == 1 {
            return;
        }
        let n = self.two_stack.n as f64;
        let writes = self.two_stack.writes as f64;
        let r = self.asymmetry;
        let estimates = self.two_stack.estimates();
        let mut costs = Vec::new();
        for [pc, pd, pdw] in &estimates {
            costs.push(match self.cost {
                Cost::Paper => pc * pd * (1.0 + pdw * r),
                Cost::Exact => (pc + pd - 1.0) + pdw * r * (writes / n),
            });
        }
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let within = 1e-12 * least.abs().max(1.0);
        let is_least = |mc: usize| costs[mc - 1] - least <= within;
        if !is_least(self.pools.mc) {
            let mut candidates = 1..self.m;
            self.pools.mc = candidates
                .find(|mc| is_least(*mc))
                .expect("the least is one");
        }
        self.estimates = Some(estimates[self.pools.mc - 1]);
    }
}

impl Policy for FdBuffer {
    fn hit(&mut self, page: u64, write: bool) {
        self.observe(page, write);
        self.pools.hit(page, write);
    }

    fn miss(&mut self, page: u64, write: bool) {
        self.observe(page, write);
        self.io += 1.0;
    }

    fn victim(&mut self, write: bool, pinned: &BTreeSet<u64>) -> u64 {
        self.pools.victim(write, pinned)
    }

    fn admit(&mut self, page: u64, write: bool) {
        self.pools.admit(page, write);
    }

    fn evict(&mut self, page: u64) {
        if !self.pools.is_clean(page) {
            self.io += self.asymmetry;
        }
        self.pools.evict(page);
    }

    fn clean(&mut self, page: u64) {
        self.io += self.asymmetry;
        self.pools.clean(page);
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
    }

    fn resident(&self) -> Vec<(u64, bool)> {
        self.pools.resident()
    }

    fn target(&self) -> Option<f64> {
        self.pools.target()
    }

    fn estimates(&self) -> Option<[f64; 3]> {
        self.estimates
    }
}

#[cfg(test)]
mod tests {
    use crate::model;
    use crate::tests::{Player, victims};

    #[test]
    fn the_advisor() {
        for cost in ["paper", "exact"] {
            // Two-Stack's example: Mc = 1 and Mc = 2 cost 1/2 (exact: 2/3), Mc = 3 costs more.
            // The current 2 stays.
            let spec = format!("fd-buffer:interval=6,cost={cost}");
            let mut fd = Player::new(model(&spec, 4), "");
            fd.play("W1 W2 R1 R1 W1");
            assert_eq!(fd.model.estimates(), None);
            fd.play("W1");
            assert_eq!(fd.model.target(), Some(2.0));
            let estimates = fd.model.estimates();
            assert_eq!(estimates, Some([1.0, 1.0 - 4.0 / 6.0, 0.5]));
        }
        // Writes hit at distance 3: Md must be 3.
        let mut fd = Player::new(model("fd-buffer:interval=6", 4), "");
        fd.play("W1 W2 W3 W1 W2 W3");
        assert_eq!(fd.model.target(), Some(1.0));
        assert_eq!(fd.model.estimates(), Some([1.0, 0.5, 0.5]));
        // Reads hit at distance 3: Mc must be 3.
        let mut fd = Player::new(model("fd-exact:interval=6", 4), "");
        fd.play("R1 R2 R3 R1 R2 R3");
        assert_eq!(fd.model.target(), Some(3.0));
        assert_eq!(fd.model.estimates(), Some([0.5, 1.0, 0.0]));
    }

    #[test]
    fn the_least_mc_of_equals_unless_the_current_one_is_among_them() {
        // Md must be at least 3 of 6 (Mc 1 to 3 cost the same); the current Mc is 3.
        let mut fd = Player::new(model("fd-buffer:interval=6", 6), "");
        fd.play("W1 W2 W3 W1 W2 W3");
        assert_eq!(fd.model.target(), Some(3.0));
        // Md must be at least 4 of 6: 1 and 2 cost the same.
        let mut fd = Player::new(model("fd-buffer:interval=8", 6), "");
        fd.play("W1 W2 W3 W4 W1 W2 W3 W4");
        assert_eq!(fd.model.target(), Some(1.0));
    }

    #[test]
    fn the_advisor_runs_before_the_reference_is_served() {
        let text = "W8 W9 R1 R2 R3 R1 R2 R3 R4";
        // Mc = 2: R3 takes 1 from C, R1 takes 2, R2 takes 3, R3 takes 1. R4 is the ninth
        // reference. If it ends the window, Mc becomes 3, reads having hit at distance 3, and R4
        // itself finds |D| = 2 > Md = 1 and takes 8 from D; else it takes 2 from C.
        assert_eq!(victims("fd-buffer:interval=9", 4, text), [1, 2, 3, 1, 8]);
        assert_eq!(victims("fd-buffer:interval=10", 4, text), [1, 2, 3, 1, 2]);
    }

    #[test]
    fn one_frame() {
        let mut fd = Player::new(model("fd-buffer:interval=2", 1), "");
        assert_eq!(fd.play("R1 W2 W3 R1"), [1, 2, 3]);
        assert_eq!(fd.model.target(), Some(1.0));
        assert_eq!(fd.model.estimates(), None);
    }

    #[test]
    fn auto() {
        // 100 frames compute for 0.2 us; with q = 0.1 % that is 200 us of I/O, 1.14 page reads.
        let mut fd = Player::new(model("fd-buffer:interval=auto,q=0.1%", 100), "");
        fd.play("R1 R2");
        assert_eq!(fd.model.estimates(), None, "one page read so far");
        fd.play("R3");
        assert!(fd.model.estimates().is_some(), "two page reads");
        // A hit ends a window too; a write-back counts R.
        let mut fd = Player::new(model("fd-buffer:interval=auto,q=0.1%", 100), "");
        fd.play("W1 W1 W1 W1");
        assert_eq!(fd.model.estimates(), None);
        fd.play("C1 R1");
        assert!(fd.model.estimates().is_some());
    }

    #[test]
    fn clock_pools() {
        // Mc = 2. C = 1 2, D = 3 4. R1 sets 1's bit; R5: 1 is passed over, 2 is evicted.
        // C = 1 5; R6: 1 is evicted, its bit was cleared.
        assert_eq!(
            victims("fd-buffer:pools=clock", 4, "R1 R2 W3 W4 R1 R5 R6"),
            [2, 1]
        );
        // W3 sets 3's bit in D: W5 takes 4. W1 moves 1 to D with a clear bit.
        assert_eq!(
            victims("fd-buffer:pools=clock", 4, "R1 R2 W3 W4 W3 W5"),
            [4]
        );
        // D = 3 4 1 (|D| > Md), C = 2; W5: 3 is evicted. D = 4 1 5: W6: 4. D = 1 5 6: W7: 1.
        assert_eq!(
            victims("fd-buffer:pools=clock", 4, "R1 R2 W3 W4 R1 W1 W5 W6 W7"),
            [3, 4, 1]
        );
    }

    #[test]
    fn two_queue_pools() {
        // Mc = Md = 4: kin = 1, kout = 2. C: A1in 1 2 3 4; D: A1in 11 12 13 14.
        // R1: moves nothing. R5: 1 is evicted, onto A1out. R1: 2 is evicted; 1 is in A1out: onto Am.
        // C: A1in 3 4 5, Am 1, A1out 2. R6, R7: 3 and 4 are evicted; A1out 3 4 (2 is dropped).
        // C: A1in 5 6 7, Am 1. R2: 5 is evicted, A1out 4 5; 2 is new: A1in 6 7 2. R4: 6 is evicted before 4
        // comes in, A1out 5 6, which 4 has just dropped out of: A1in 7 2 4.
        // R6: 7 is evicted, A1out 6 7; 6 onto Am: A1in 2 4, Am 1 6. R7: 2 is evicted, A1out 7 2; 7 onto
        // Am 1 6 7. A1in 4: not more than kin.
        // R8: Am's LRU 1 is evicted, no trace. A1in 4 8. R1: 4 is evicted; 1 is new: A1in 8 1.
        assert_eq!(
            victims(
                "fd-buffer:pools=2q",
                8,
                "R1 R2 R3 R4 W11 W12 W13 W14 R1 R5 R1 R6 R7 R2 R4 R6 R7 R8 R1"
            ),
            [1, 2, 3, 4, 5, 6, 7, 2, 1, 4]
        );
    }
}
