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
            "auto" => Interval::Auto { computing_us_over_q: (m as f64 * 0.002) / q },
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
            Interval::Auto { computing_us_over_q } => self.io * READ_US >= computing_us_over_q,
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
            self.pools.mc = candidates.find(|mc| is_least(*mc)).expect("the least is one");
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

    fn end(&mut self, page: u64) {
        self.two_stack.end(page);
        self.evict(page);
    }

    fn clean(&mut self, page: u64) {
        self.io += self.asymmetry;
        self.pools.clean(page);
    }

    fn costs(&mut self, asymmetry: f64) {
        self.asymmetry = asymmetry;
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
    use crate::tests::Player;

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
}
