//! Requests that go through a small ring of frames instead of the whole buffer.

/// The work for which a server uses a ring of frames instead of its whole buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RingKind {
    /// A big scan, which reads each page once.
    BulkRead,
    /// A bulk write, such as a load or a copy of a table.
    BulkWrite,
    /// A vacuum.
    Vacuum,
    /// A big scan whose ring gives up dirty pages at this request: the log of their changes is not written yet, and the scan
    /// does not wait for it (PostgreSQL: `StrategyRejectBuffer`). The ring is that of the scan's other requests.
    BulkReadGivingUp,
}

impl RingKind {
    /// All kinds, with the codes 1, 2, 3 and 0.
    pub const ALL: [RingKind; 4] = [RingKind::BulkRead, RingKind::BulkWrite, RingKind::Vacuum, RingKind::BulkReadGivingUp];

    /// The name for display.
    pub fn name(self) -> &'static str {
        match self {
            RingKind::BulkRead => "bulk read",
            RingKind::BulkWrite => "bulk write",
            RingKind::Vacuum => "vacuum",
            RingKind::BulkReadGivingUp => "bulk read that gives up dirty pages",
        }
    }

    fn code(self) -> u32 {
        match self {
            RingKind::BulkRead => 1,
            RingKind::BulkWrite => 2,
            RingKind::Vacuum => 3,
            RingKind::BulkReadGivingUp => 0,
        }
    }
}

/// The ring of a request. A server such as PostgreSQL reads a big scan, a bulk write or a vacuum through a few frames of
/// its own, so that the pages do not displace those of other work (PostgreSQL: `BufferAccessStrategy` in
/// `src/backend/storage/buffer/freelist.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ring {
    /// Distinguishes the rings of a trace, from 1 to 2^30-1: one scan of one server process is one ring.
    pub number: u32,
    /// What the ring is for.
    pub kind: RingKind,
}

impl Ring {
    /// The largest number that a code has room for.
    pub const MOST: u32 = u32::MAX >> 2;

    /// The ring with this code, which is `number * 4 + kind`, with kind 1 for bulk reads, 2 for bulk writes, 3 for
    /// vacuum, and 0 for a bulk read that gives up dirty pages. `None` for codes without a number; 0 is a request through the
    /// buffer.
    #[inline]
    pub fn from_code(code: u32) -> Option<Ring> {
        let kind = match code & 3 {
            1 => RingKind::BulkRead,
            2 => RingKind::BulkWrite,
            3 => RingKind::Vacuum,
            _ => RingKind::BulkReadGivingUp,
        };
        let number = code >> 2;
        (number > 0).then_some(Ring { number, kind })
    }

    /// The code from which [`of`](Ring::from_code) restores this ring; a larger number than [`MOST`](Ring::MOST) is cut to its
    /// low 30 bits.
    #[inline]
    pub fn code(self) -> u32 {
        self.number << 2 | self.kind.code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_rings_are_the_same_both_ways() {
        for kind in RingKind::ALL {
            for number in [1, 2, 77, Ring::MOST] {
                let ring = Ring { number, kind };
                assert_eq!(Ring::from_code(ring.code()), Some(ring));
            }
        }
        assert_eq!(Ring::from_code(4 * 9 + 3), Some(Ring { number: 9, kind: RingKind::Vacuum }));
        // The buffer; a kind without a number.
        for code in [0, 1, 2, 3] {
            assert_eq!(Ring::from_code(code), None, "{code}");
        }
    }
}
