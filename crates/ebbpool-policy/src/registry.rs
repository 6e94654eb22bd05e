//! All policies by name: one line each.

use crate::clustered::Clustered;
use crate::policies;
use crate::policy::{DynPolicy, Foresight, Policy};
use crate::spec::{Entry, PolicySpec};

/// A policy the registry can build.
pub trait Build: Policy + Sized + 'static {
    /// The policy's description of itself.
    const ENTRY: Entry;

    /// True if its `cluster` parameter is the write clustering laid over any policy.
    const WRITE_CLUSTERING: bool = false;

    /// How much of the future it requires.
    const FORESIGHT: Foresight = Foresight::Nothing;

    /// The policy over `frames` frames, which are at least one. `spec` is of this entry.
    fn build(spec: &PolicySpec, frames: u32) -> Self;
}

/// Receives a policy as a concrete type, to be called without dynamic dispatch.
pub trait Visitor {
    /// The result of the visit.
    type Out;

    /// Receives the policy.
    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Out;
}

macro_rules! registry {
    ($($module:ident::$policy:ident),* $(,)?) => {
        /// The entries of all policies, in the order of the documentation.
        pub fn entries() -> &'static [Entry] {
            static ENTRIES: &[Entry] = &[$(<policies::$module::$policy as Build>::ENTRY),*];
            ENTRIES
        }

        /// How much of the future the policy of `spec` itself requires.
        fn own_foresight(spec: &PolicySpec) -> Foresight {
            $(if spec.entry.name == <policies::$module::$policy as Build>::ENTRY.name {
                return <policies::$module::$policy as Build>::FORESIGHT;
            })*
            unreachable!("a PolicySpec refers to an entry of the registry")
        }

        /// Builds the policy of `spec` over `frames` frames (at least one) for `visitor`.
        pub fn visit<V: Visitor>(spec: &PolicySpec, frames: u32, visitor: V) -> V::Out {
            $(if spec.entry.name == <policies::$module::$policy as Build>::ENTRY.name {
                return build::<policies::$module::$policy, V>(spec, frames, visitor);
            })*
            unreachable!("a PolicySpec refers to an entry of the registry")
        }
    };
}

registry! {
    fifo::Fifo,
    lru::Lru,
    clock::Clock,
    gclock::Gclock,
    lru_k::LruK,
    two_q::TwoQ,
    lrfu::Lrfu,
    fbr::Fbr,
    arc::Arc,
    car::Car,
    lirs::Lirs,
    s3_fifo::S3Fifo,
    sieve::Sieve,
    w_tinylfu::WTinyLfu,
    belady::Belady,
    cost_belady::CostBelady,
    price_guided::PriceGuided,
    cflru::Cflru,
    cflru_c::CflruC,
    cflru_e::CflruE,
    dl_cflru_e::DlCflruE,
    lru_wsr::LruWsr,
    lirs_wsr::LirsWsr,
    ccf_lru::CcfLru,
    ad_lru::AdLru,
    casa::Casa,
    recently_evicted_first::Ref,
    fab::Fab,
    bplru::Bplru,
    cfdc::Cfdc,
    fd_static::FdStatic,
    fd_buffer::FdBuffer,
    acr::Acr,
    dulo::Dulo,
    operation_aware::OperationAware,
    wa_landlord::WaLandlord,
    h_arc::HArc,
    lru_c::LruC,
    ebb::Ebb,
    auto::Auto,
    ace::Ace,
}

/// How much of the future the policy of `spec`, or one that it wraps, requires.
pub fn foresight(spec: &PolicySpec) -> Foresight {
    spec.wrapped()
        .map(foresight)
        .fold(own_foresight(spec), Foresight::max)
}

fn build<P: Build, V: Visitor>(spec: &PolicySpec, frames: u32, visitor: V) -> V::Out {
    let policy = P::build(spec, frames);
    match spec.whole("cluster") {
        Some(size) if P::WRITE_CLUSTERING && size > 0 => {
            visitor.visit(Clustered::new(policy, frames, size))
        }
        _ => visitor.visit(policy),
    }
}

/// The policy of `spec` over `frames` frames (at least one), behind dynamic dispatch.
pub fn boxed(spec: &PolicySpec, frames: u32) -> Box<dyn DynPolicy + Send> {
    struct Boxed;
    impl Visitor for Boxed {
        type Out = Box<dyn DynPolicy + Send>;
        fn visit<P: Policy + 'static>(self, policy: P) -> Self::Out {
            Box::new(policy)
        }
    }
    visit(spec, frames, Boxed)
}
