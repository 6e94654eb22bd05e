//! All policies by name: one line each.

use crate::clustered::{Clustered, ClusteredConfig};
use crate::parameters::PolicyConfig;
use crate::policies;
use crate::policy::{DynPolicy, Policy};
use crate::spec::{PolicyEntry, PolicySpec};

/// A policy the registry can build.
pub trait RegisteredPolicy: Policy + Sized + 'static {
    /// The values of the policy's parameters.
    type Config: PolicyConfig;

    /// The policy's description of itself.
    const ENTRY: PolicyEntry;

    /// True if its `cluster` parameter is the write clustering laid over any policy.
    const WRITE_CLUSTERING: bool = false;

    /// False if a miniature of it over a sample of the pages has a bill that is systematically above or below the
    /// policy's own, so that it has to run on all pages.
    const HAS_MINIATURE: bool = true;

    /// The policy over `frames` frames, which are at least one. The values of `config` are in the
    /// ranges that [`ENTRY`](Self::ENTRY) states.
    fn new(config: Self::Config, frames: u32) -> Self;
}

/// Receives a policy as a concrete type, to be called without dynamic dispatch.
pub trait Visitor {
    /// The result of the visit.
    type Out;

    /// Receives the policy.
    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Out;
}

/// Receives the type of a policy.
trait TypeVisitor {
    /// The result of the visit.
    type Out;

    /// Receives the type.
    fn visit<P: RegisteredPolicy>(self) -> Self::Out;
}

macro_rules! registry {
    ($($module:ident::$policy:ident),* $(,)?) => {
        /// The entries of all policies, in the order of the documentation.
        pub fn entries() -> &'static [PolicyEntry] {
            static ENTRIES: &[PolicyEntry] = &[$(<policies::$module::$policy as RegisteredPolicy>::ENTRY),*];
            ENTRIES
        }

        /// Calls `visitor` with the type of the policy of `entry`; `None` if the registry does not have it.
        fn visit_type<V: TypeVisitor>(entry: &PolicyEntry, visitor: V) -> Option<V::Out> {
            $(if entry.name == <policies::$module::$policy as RegisteredPolicy>::ENTRY.name {
                return Some(visitor.visit::<policies::$module::$policy>());
            })*
            None
        }

        #[cfg(test)]
        #[test]
        fn every_config_is_made_from_its_entry() {
            $(tests::assert_config_of::<policies::$module::$policy>();)*
        }
    };
}

registry! {
    fifo::Fifo,
    lru::Lru,
    clock::Clock,
    gclock::Gclock,
    postgres::Postgres,
    innodb::Innodb,
    sqlite::Sqlite,
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
    hyperbolic::Hyperbolic,
    lhd::Lhd,
    lecar::Lecar,
    cacheus::Cacheus,
    belady::Belady,
    cost_belady::CostBelady,
    price_guided::PriceGuided,
    informed::Informed,
    cflru::Cflru,
    cflru_c::CflruC,
    cflru_e::CflruE,
    dl_cflru_e::DlCflruE,
    lru_wsr::LruWsr,
    lirs_wsr::LirsWsr,
    ccf_lru::CcfLru,
    ad_lru::AdLru,
    casa::Casa,
    recently_evicted_first::RecentlyEvictedFirst,
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
    watt::Watt,
    ebb::Ebb,
    auto::Auto,
    ace::Ace,
}

/// Builds the policy of `spec` over `frames` frames (at least one) for `visitor`.
///
/// # Panics
///
/// If the entry of `spec` is the caller's own: a specification that was parsed has one of the registry.
pub fn visit<V: Visitor>(spec: &PolicySpec, frames: u32, visitor: V) -> V::Out {
    struct Built<'s, V> {
        spec: &'s PolicySpec,
        frames: u32,
        visitor: V,
    }
    impl<V: Visitor> TypeVisitor for Built<'_, V> {
        type Out = V::Out;
        fn visit<P: RegisteredPolicy>(self) -> V::Out {
            build::<P, V>(self.spec, self.frames, self.visitor)
        }
    }
    let built = Built { spec, frames, visitor };
    match visit_type(spec.entry, built) {
        Some(out) => out,
        None => panic!("{} is not in the registry", spec.entry.name),
    }
}

/// True if miniatures of the policy of `spec` itself are known to estimate its bill without bias.
pub(crate) fn itself_has_miniature(spec: &PolicySpec) -> bool {
    struct OfType<'s>(&'s PolicySpec);
    impl TypeVisitor for OfType<'_> {
        type Out = bool;
        fn visit<P: RegisteredPolicy>(self) -> bool {
            // The miniatures of write clustering have too few writes.
            P::HAS_MINIATURE && write_cluster::<P>(self.0).is_none()
        }
    }
    visit_type(spec.entry, OfType(spec)).unwrap_or(false)
}

fn build<P: RegisteredPolicy, V: Visitor>(spec: &PolicySpec, frames: u32, visitor: V) -> V::Out {
    const { assert!(P::ENTRY.capabilities.bits() == P::CAPABILITIES.bits()) };
    let policy = P::new(P::Config::from_spec(spec), frames);
    match write_cluster::<P>(spec) {
        Some(size) => {
            let ClusteredConfig { keys, .. } = ClusteredConfig::from_spec(spec);
            visitor.visit(Clustered::new(Box::new(policy), frames, size, keys))
        }
        None => visitor.visit(policy),
    }
}

/// The pages of a cluster, if write clustering is laid over the policy.
fn write_cluster<P: RegisteredPolicy>(spec: &PolicySpec) -> Option<u64> {
    if !P::WRITE_CLUSTERING {
        return None;
    }
    let ClusteredConfig { cluster, .. } = ClusteredConfig::from_spec(spec);
    cluster.filter(|&size| size > 0)
}

/// The policy of `spec` over `frames` frames (at least one), behind dynamic dispatch.
///
/// # Panics
///
/// As [`visit`].
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

#[cfg(test)]
mod tests {
    use ebbpool_cost::spec::Whole;

    use super::*;
    use crate::spec::{ParameterKind, Value};

    /// The default config is that of the policy's name alone, and the least and largest numbers fit
    /// the types of their fields.
    pub(super) fn assert_config_of<P: RegisteredPolicy>() {
        let spec: PolicySpec = P::ENTRY.name.parse().expect("a policy");
        assert_eq!(P::Config::default(), P::Config::from_spec(&spec));
        for largest in [false, true] {
            let end = spec.clone().with_values(&|param, _| match param.kind {
                ParameterKind::Whole(Whole { min, max, .. }) => Some(Value::Whole(if largest { max } else { min })),
                _ => None,
            });
            let _ = P::Config::from_spec(&end);
        }
    }
}
